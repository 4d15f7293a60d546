"""Bad policies: each is refused with file, line, column and key, what is wrong, and the nearest name."""

from __future__ import annotations

import glob
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife.errors import HalflifeError
from halflife.parsing.documents import LARGEST, parse_document
from halflife.policy import Policy, PolicyError
from halflife.policy.paths import matches
from policy.towns import GOOD, change, moving, write_tables
from work import work

SIZE = (
    "How many people there are. Public knowledge, never counted from the data. A number, or the path of a public table of "
    "numbers by date (….csv with columns from and size)."
)

TABLES = {
    "twice.csv": "who,where\na,north\na,south\n",
    "empty.csv": "who,where\n",
    "hole.csv": "who,where\na,\n",
    "five.csv": "who,where\n1,x\n2,x\n3,x\n4,x\n5,x\n",
    "words.csv": "who,weight\na,heavy\n",
}
MOVING = moving()
MEANS = change("kind: sum", "kind: mean", MOVING)
HISTOGRAM = change(
    "kind: sum",
    "kind: histogram",
    change(
        "      clip: [0, 5 kWh]\n      fold: sum\n      missing: 0.2\n", "      edges: [0, 1, 2]\n      fold: sum\n"
    ),
)

WEIGHTS = "      weights: {file: homes.csv, person: who, weight: weight, largest: 5}"
WEIGHTED = change("kind: sum", "kind: weighted sum", change("      missing: 0.2", WEIGHTS))
MORE = "  - name: more\n    share: 0.3\n    statistic: {kind: count}\n    output: more.csv\n"
TWO = change("name: load", "name: load\n    share: 0.7") + MORE
WEVENT = change("exponential\n  epsilon: 1\n  half_life", "w-event\n  epsilon: 1\n  w")
WINDOWS = change("exponential\n  epsilon: 1\n  half_life", "w-event\n  epsilon: 1\n  w", TWO)

# fmt: off
BAD = [
    # Keys that nobody knows, at every level
    (GOOD, "halflife: 1\n", "halflife: 1\nledgr: x\n",
     "2:1: ledgr: unknown key 'ledgr': did you mean 'ledger'? Known: clock, halflife, ledger, mark, noise_key, "
     "population, promise, reconcile, streams"),
    (GOOD, "  size: 4", "  sise: 4",
     "2:1: population.size: missing: " + SIZE + "\n"
     "4:3: population.sise: unknown key 'sise': did you mean 'size'? Known: id, neighbours, person, size, units"),
    (GOOD, "half_life: 1 day", "halflife: 1 day",
     "9:3: promise.halflife: unknown parameter of exponential 'halflife': did you mean 'half_life'? Known: "
     "alpha, cap, epsilon, half_life, noise, plan"),
    (GOOD, "half_life: 1 day", "w: 48",
     "9:3: promise.w: unknown parameter of exponential 'w': Known: alpha, cap, epsilon, half_life, noise, plan"),
    (GOOD, "  zone: Europe/London", "  zon: Europe/London",
     "14:3: clock.zon: unknown key 'zon': did you mean 'zone'? Known: end, late, start, step, zone"),
    (GOOD, "      time: ts", "      tiem: ts",
     "17:5: streams.0.source.time: missing: The column with the time of a reading.\n"
     "19:7: streams.0.source.tiem: unknown key 'tiem': did you mean 'time'? Known: columns, database, delimiter, engine, epoch, "
     "files, format, group, master, person, table, time, time_format, value, wide, zone"),
    (GOOD, "      fold: sum", "      fould: sum",
     "27:7: streams.0.statistic.fould: unknown key 'fould': did you mean 'fold'? Known: clip, clip_readings, duplicates, "
     "edges, fold, grid, kind, missing, most_events, quantiles, resolution, unit, weights"),
    (GOOD, "    delay: 1 h", "    delai: 1 h",
     "34:5: streams.0.delai: unknown key 'delai': did you mean 'delay'? Known: absent, delay, end, groups, "
     "lateness, mechanism, name, output, post, share, source, start, statistic, step"),
    (GOOD, "        group: where", "        grup: where",
     "30:7: streams.0.groups.table.group: missing: The column with the person's group.\n"
     "33:9: streams.0.groups.table.grup: unknown key 'grup': did you mean 'group'? Known: file, group, person"),
    (GOOD, "      table:\n", "      tabel:\n",
     "30:7: streams.0.groups.tabel: unknown key 'tabel': did you mean 'table'? Known: most_per_person, names, "
     "sizes, table"),
    (GOOD, "moving_average: 4", "moving_avrage: 4",
     "37:9: streams.0.post.1.moving_avrage: unknown key 'moving_avrage': did you mean 'moving_average'? Known: "
     "above, kalman, moving_average, seasonal, truncate"),
    # Values that nobody knows
    (GOOD, "halflife: 1\n", "halflife: 2\n", "1:1: halflife: unknown value 2: Known: 1"),
    (GOOD, "exponential", "exponental",
     "7:3: promise.notion: unknown notion 'exponental': did you mean 'exponential'? Known: "
     "age-dependent, almost-periodic, classical, exponential, gaussian-discount, hyperbolic, swellfish, w-event"),
    (GOOD, "  half_life", "  plan: tigt\n  half_life",
     "9:3: promise.plan: unknown plan for exponential 'tigt': did you mean 'tight'? Known: constant, optimal, "
     "paper, tight"),
    (GOOD, "  half_life", "  noise: gausian\n  half_life",
     "9:3: promise.noise: unknown value 'gausian': did you mean 'gaussian'? Known: gaussian, laplace"),
    (GOOD, "  half_life", "  noise: gaussian\n  half_life",
     "9:3: promise.noise: unknown noise for exponential 'gaussian': Known: laplace"),
    (GOOD, "Europe/London", "Europe/Lundon",
     "14:3: clock.zone: unknown zone 'Europe/Lundon': did you mean 'Europe/London'? Give a name such as UTC or "
     "Europe/Berlin"),
    (GOOD, "Europe/Paris", "Europe/Pariss",
     "21:7: streams.0.source.zone: unknown zone 'Europe/Pariss': did you mean 'Europe/Paris'? Give a name such "
     "as UTC or Europe/Berlin"),
    (GOOD, "kind: sum", "kind: summ",
     "23:7: streams.0.statistic.kind: unknown value 'summ': did you mean 'sum'? Known: count, events, histogram, mean, "
     "quantile, sum, weighted sum"),
    (GOOD, "  person: who\npromise", "  person: who\n  neighbours: replace_one\npromise",
     "6:3: population.neighbours: unknown value 'replace_one': did you mean 'replace-one'? Known: add-remove, "
     "replace-one"),
    (GOOD, "1 Wh", "1 W",
     "25:7: streams.0.statistic.resolution: '1 W' is not in kWh: give a number of kWh, or of the same unit "
     "with another prefix (mWh, MWh)"),
    (GOOD, "30 min", "30 minuts",
     "11:3: clock.step: '30 minuts' is no width of time (did you mean 'minutes'?): write a number and s, min, "
     "h, day, week, month or year, such as '30 min'"),
    (GOOD, "fold: sum", "fold: median",
     "27:7: streams.0.statistic.fold: unknown value 'median': did you mean 'mean'? Known: first, last, max, "
     "mean, min, sum"),
    (GOOD, "load.csv", "load.xlsx",
     "38:5: streams.0.output: unknown ending of the output 'load.xlsx', '.xlsx': Known: -, .csv, .jsonl, "
     ".parquet, /"),
    (GOOD, "load.csv", "load",
     "38:5: streams.0.output: unknown ending of the output 'load', '': Known: -, .csv, .jsonl, .parquet, /"),
    # Blanks, and what is missing
    (GOOD, "size: 4", "size:",
     "4:3: population.size: is blank: " + SIZE),
    (GOOD, "size: 4", "size: null",
     "4:3: population.size: is blank: " + SIZE),
    (GOOD, "epsilon: 1", "epsilon:", "8:3: promise.epsilon: is blank: fill it in, or delete the line"),
    (GOOD, "epsilon: 1", "epsilon: ~", "8:3: promise.epsilon: missing: exponential needs it"),
    (GOOD, "  epsilon: 1\n", "", "6:1: promise.epsilon: missing: exponential needs it"),
    (GOOD, "  half_life: 1 day\n", "",
     "6:1: promise: give either alpha or half_life, not alpha=None and half_life=None"),
    (GOOD, "clip: [0, 5 kWh]", "clip:",
     "26:7: streams.0.statistic.clip: is blank: The least and the largest that one person counts as in a step, "
     "after `fold`. Public, not from the data."),
    (GOOD, "clip: [0, 5 kWh]", "clip_readings:",
     "26:7: streams.0.statistic.clip_readings: is blank: The least and the largest that a single reading counts as, "
     "before `fold`. Public, not from the data."),
    (GOOD, "unit: kWh", "unit:", "24:7: streams.0.statistic.unit: is blank: What the values are in, such as kWh."),
    (GOOD, "      value: kwh\n", "", "17:5: streams.0.source.value: missing: a sum needs the column of the readings"),
    (GOOD, "      fold: sum\n", "",
     "22:5: streams.0.statistic.fold: missing: how several readings of one person in a step become one (sum, "
     "mean, last, …)"),
    (GOOD, "      resolution: 1 Wh\n", "",
     "22:5: streams.0.statistic.resolution: missing: readings become whole multiples of it, such as 1 Wh, so "
     "that sums are exact"),
    (GOOD, "      clip: [0, 5 kWh]\n", "",
     "22:5: streams.0.statistic.clip: missing: the least and the largest that one person counts as in a step: public "
     "bounds, such as `clip: [0, 5 kWh]`"),
    (GOOD, "      clip: [0, 5 kWh]\n      fold: sum\n", "      fold: mean\n",
     "22:5: streams.0.statistic.clip: missing: the least and the largest that one person counts as in a step: public "
     "bounds, such as `clip: [0, 5 kWh]`; or those of a single reading, `clip_readings`"),
    (GOOD, "clip: [0, 5 kWh]", "clip_readings: [0, 5 kWh]",
     "22:5: streams.0.statistic.clip: missing: `clip_readings` bounds each reading, and with `fold: sum` one person may "
     "have any number of them in a step: give the least and the largest that one person counts as, such as "
     "`clip: [0, 5 kWh]`"),
    (GOOD, "clip: [0, 5 kWh]", "clip_readings: [5 kWh, 0]\n      clip: [0, 5 kWh]",
     "26:7: streams.0.statistic.clip_readings: must go from low to high, not from 5 kWh to 0"),
    (GOOD, "kind: sum", "kind: weighted sum",
     "22:5: streams.0.statistic.weights: missing: a weighted sum needs a public table of weights"),
    # Of the wrong kind
    (GOOD, "  id: town\n  size: 4\n  person: who", "  - town",
     "2:1: population: must be a mapping of keys, not \"['town']\""),
    (GOOD, "  id: town\n  size: 4\n  person: who", "  town",
     "2:1: population: must be a mapping of keys, not 'town'"),
    (GOOD, "epsilon: 1", "epsilon: {a: 1}", "8:3: promise.epsilon: epsilon must be a number, not {'a': '1'}"),
    (GOOD, "epsilon: 1", "epsilon: [1]", "8:3: promise.epsilon: epsilon must be a number, not ['1']"),
    (GOOD, "epsilon: 1", "epsilon: yes", "8:3: promise.epsilon: epsilon must be a number, not 'yes'"),
    (GOOD, "size: 4", "size: yes", "4:3: population.size: must be a whole number, not 'yes'"),
    (GOOD, "size: 4", "size: 4.5", "4:3: population.size: must be a whole number, not 4.5"),
    (GOOD, "files: readings.csv", "files: []", "18:7: streams.0.source.files: must have at least 1 items, not 0"),
    (GOOD, "files: readings.csv", "files: {a: b}", "18:7: streams.0.source.files: must be a list, not \"{'a': 'b'}\""),
    (GOOD, "name: load", "name: a b",
     "16:5: streams.0.name: must have letters, digits, dots, dashes and underscores alone, at most 64, not 'a "
     "b'"),
    (GOOD, "moving_average: 4", "moving_average: four",
     "37:9: streams.0.post.1.moving_average: must be a whole number, not 'four'"),
    (GOOD, "[0, 5 kWh]", "[0, 1, 2]", "26:7: streams.0.statistic.clip: must have at most 2 items, not 3"),
    (GOOD, "[0, 5 kWh]", "5 kWh", "26:7: streams.0.statistic.clip: must be a list, not '5 kWh'"),
    (GOOD, "homes.csv", "\"a\\0b\"",
     "31:9: streams.0.groups.table.file: must not hold a null character, not 'a\\x00b'"),
    (GOOD, "homes.csv", "\"\\ud800\"", "31:9: streams.0.groups.table.file: must be text, not '\\ud800'"),
    (GOOD, "homes.csv", "\"\"", "31:9: streams.0.groups.table.file: must not be empty, not ''"),
    # Numbers that mean nothing here
    (GOOD, "epsilon: 1", "epsilon: -1", "8:3: promise.epsilon: epsilon must be above 0, not -1"),
    (GOOD, "epsilon: 1", "epsilon: 0", "8:3: promise.epsilon: epsilon must be above 0, not 0"),
    (GOOD, "epsilon: 1", "epsilon: nan", "8:3: promise.epsilon: epsilon must be a number, not 'nan'"),
    (GOOD, "epsilon: 1", "epsilon: inf", "8:3: promise.epsilon: epsilon must be a number, not 'inf'"),
    (GOOD, "epsilon: 1", "epsilon: 1 day", "8:3: promise.epsilon: epsilon must be a number, not '1 day'"),
    (GOOD, "epsilon: 1", "epsilon: 1e-13",
     "6:1: promise.plan: the tight plan gives the first step next to no budget: nothing could be published"),
    (GOOD, "half_life: 1 day", "half_life: -3", "9:3: promise.half_life: half_life must be above 0, not -3"),
    (GOOD, "half_life: 1 day", "half_life: 1 dy",
     "9:3: promise.half_life: '1 dy' is no width of time (did you mean 'day'?): write a number and s, min, h, "
     "day, week, month or year, such as '30 min'"),
    (GOOD, "half_life: 1 day", "half_life: 1 day\n  alpha: 0.5",
     "6:1: promise: give either alpha or half_life, not alpha=0.5 and half_life=48"),
    (GOOD, "  half_life", "  cap: inf\n  half_life", "9:3: promise.cap: must be a finite number, not 'inf'"),
    (GOOD, "  half_life", "  cap: -1\n  half_life", "9:3: promise.cap: must be above 0, not -1"),
    (GOOD, "size: 4", "size: 0", "4:3: population.size: must be at least 1, not 0"),
    (GOOD, "size: 4", "size: -5", "4:3: population.size: must be at least 1, not -5"),
    (GOOD, "size: 4", "size: nan", "4:3: population.size: must be a whole number, not 'nan'"),
    (GOOD, "size: 4", "size: inf", "4:3: population.size: must be a whole number, not 'inf'"),
    (GOOD, "[0, 5 kWh]", "[5, 0]", "26:7: streams.0.statistic.clip: must go from low to high, not from 5 to 0"),
    (GOOD, "[0, 5 kWh]", "[5, 5]", "26:7: streams.0.statistic.clip: must go from low to high, not from 5 to 5"),
    (GOOD, "[0, 5 kWh]", "[0, nan]",
     "26:7: streams.0.statistic.clip: a quantity must be a number with a unit, such as '5 kWh', not 'nan'"),
    (GOOD, "[0, 5 kWh]", "[0, inf]",
     "26:7: streams.0.statistic.clip: a quantity must be a number with a unit, such as '5 kWh', not 'inf'"),
    (GOOD, "[0, 5 kWh]", "[0, 0.0005]",
     "26:7: streams.0.statistic.clip: '0.0005' is no whole multiple of the resolution (1/1000 kWh)"),
    (GOOD, "[0, 5 kWh]", "[0, 1e20]",
     "26:7: streams.0.statistic.clip: '1e20' is more than 1,099,511,627,776 resolutions from 0: choose a "
     "coarser resolution"),
    (GOOD, "1 Wh", "0 Wh", "25:7: streams.0.statistic.resolution: the resolution must be above 0, not '0 Wh'"),
    (GOOD, "missing: 0.2", "missing: 0.0001",
     "28:7: streams.0.statistic.missing: '0.0001' is no whole multiple of the resolution (1/1000 kWh)"),
    (GOOD, "moving_average: 4", "moving_average: 1",
     "37:9: streams.0.post.1.moving_average: must be at least 2, not 1"),
    (GOOD, "[0, 20]", "[20, 0]", "36:9: streams.0.post.0: truncate needs low below high, not 20.0 and 0.0"),
    (GOOD, "[0, 20]", "[0, 20 V]",
     "36:9: streams.0.post.0: '20 V' is not in kWh: give a number of kWh, or of the same unit with another "
     "prefix (mWh, MWh)"),
    (GOOD, "name: load", "name: load\n    share: 1.5", "17:5: streams.0.share: must be at most 1.0, not 1.5"),
    (GOOD, "name: load", "name: load\n    share: 0", "17:5: streams.0.share: must be above 0, not 0"),
    (GOOD, "name: load", "name: load\n    share: nan", "17:5: streams.0.share: must be a finite number, not 'nan'"),
    # Times
    (GOOD, "start: 2026-01-01", "start: 2026-13-01",
     "12:3: clock.start: '2026-13-01' is no date: write it as 2026-01-31, or with a time as 2026-01-31T13:30"),
    (GOOD, "start: 2026-01-01", "start: 0001-01-01",
     "12:3: clock.start: '0001-01-01' lies outside the years 1900 to 2199"),
    (GOOD, "end: 2026-02-01", "end: 2025-02-01",
     "13:3: clock.end: the end must be whole steps of 30 min after the start"),
    (GOOD, "end: 2026-02-01", "end: 2026-01-01",
     "13:3: clock.end: the end must be whole steps of 30 min after the start"),
    (GOOD, "end: 2026-02-01", "end: 2026-01-31T00:10",
     "13:3: clock.end: the end must be whole steps of 30 min after the start"),
    (GOOD, "end: 2026-02-01", "end: someday",
     "13:3: clock.end: 'someday' is no date: write it as 2026-01-31, or with a time as 2026-01-31T13:30"),
    (GOOD, "delay: 1 h", "delay: soon",
     "34:5: streams.0.delay: 'soon' is no width of time: write a number and s, min, h, day, week, month or "
     "year, such as '30 min'"),
    (GOOD, "name: load", "name: load\n    step: 45 min",
     "17:5: streams.0.step: a stream's steps must be whole multiples of the clock's step, 30 min"),
    (GOOD, "name: load", "name: load\n    step: 1 s",
     "17:5: streams.0.step: a stream's steps must be whole multiples of the clock's step, 30 min"),
    (GOOD, "name: load", "name: load\n    start: 2025-12-31",
     "17:5: streams.0.start: a stream cannot start before the clock does"),
    (GOOD, "name: load", "name: load\n    start: 2026-01-01T00:10",
     "17:5: streams.0.start: a stream starts where one of the clock's steps does"),
    (GOOD, "name: load", "name: load\n    start: 2026-01-01T06:00\n    step: 1 day",
     "17:5: streams.0.start: a step of local days starts at midnight in Europe/London, not at "
     "2026-01-01T06:00:00+00:00"),
    (GOOD, "name: load", "name: load\n    end: 2026-03-01",
     "17:5: streams.0.end: a stream cannot end after the clock does (2026-02-01)"),
    # Statistics that do not fit together
    (GOOD, "kind: sum", "kind: histogram", "26:7: streams.0.statistic.clip: a histogram has no `clip`: leave it out"),
    (GOOD, "kind: sum", "kind: count",
     "26:7: streams.0.statistic.clip: a count of people has no `clip`: leave it out"),
    (change("clip:", "clip_readings:"), "kind: sum", "kind: count",
     "26:7: streams.0.statistic.clip_readings: a count of people has no `clip_readings`: leave it out"),
    (GOOD, "      clip: [0, 5 kWh]\n      fold: sum\n      missing: 0.2\n", "      edges: [0, 1]\n      fold: sum\n",
     "26:7: streams.0.statistic.edges: a sum has no `edges`: leave it out"),
    (GOOD, "      missing: 0.2", "      weights: {file: homes.csv, person: who, weight: weight, largest: 5}",
     "28:7: streams.0.statistic.weights: a sum has no `weights`: leave it out"),
    (GOOD, "- moving_average: 4", "  moving_average: 4",
     "36:9: streams.0.post.0: one step is one of truncate, moving_average, kalman and seasonal: write a list of such steps"),
    (GOOD, "- moving_average: 4", "- {}",
     "37:9: streams.0.post.1: one step is one of truncate, moving_average, kalman and seasonal: write a list of such steps"),
    # Public tables
    (GOOD, "homes.csv", "twice.csv",
     "30:7: streams.0.groups.table: twice.csv, row 2: who 'a' stands twice: a person has one where"),
    (GOOD, "homes.csv", "empty.csv",
     "30:7: streams.0.groups.table: empty.csv has no rows: a public table must be complete"),
    (GOOD, "homes.csv", "hole.csv",
     "30:7: streams.0.groups.table: hole.csv, row 1: who or where is empty: a public table must be complete"),
    (GOOD, "homes.csv", "five.csv",
     "30:7: streams.0.groups.table: five.csv has 5 people, more than the population (4)"),
    (GOOD, "homes.csv", "nohomes.csv",
     "30:7: streams.0.groups.table: nohomes.csv cannot be read as a public table: No such file or directory"),
    (GOOD, "group: where", "group: wher",
     "30:7: streams.0.groups.table: homes.csv has no column 'wher': did you mean 'where'? It has: who, where, "
     "weight"),
    (GOOD, "      table:", "      names: [north]\n      table:",
     "31:7: streams.0.groups.table: homes.csv: unknown group 'south': did you mean 'north'? Known: north"),
    (GOOD, "      table:", "      names: [north, south, north]\n      table:",
     "31:7: streams.0.groups.table: group 'north' stands twice"),
    (GOOD, "      table:", "      most_per_person: 1\n      table:",
     "31:7: streams.0.groups.table: a table fixes each person's group and its size: leave most_per_person and "
     "sizes out"),
    (GOOD, "      value: kwh", "      value: kwh\n      group: where",
     "21:7: streams.0.source.group: a table fixes each person's group for ever: leave this out"),
    # Groups that may change
    (MOVING, "most_per_person: 1", "most_per_person: 3",
     "29:5: streams.0.groups: most_per_person is 3, but there are only 2 groups"),
    (MOVING, "most_per_person: 1", "most_per_person: 0",
     "31:7: streams.0.groups.most_per_person: must be at least 1, not 0"),
    (MOVING, "[north, south]", "[no, no]", "29:5: streams.0.groups: group 'no' stands twice"),
    (MOVING, "fold: sum", "fold: sum\n      missing: 1",
     "29:7: streams.0.statistic.missing: must be 0 where a person's group may change: nobody knows the group "
     "of who is missing"),
    (MOVING, "      group: where\n", "",
     "28:5: streams.0.groups: without a table of groups the source needs a `group` column"),
    (MOVING, "      names: [north, south]\n", "",
     "29:5: streams.0.groups: needs either a table that fixes each person's group for ever, or names and "
     "most_per_person"),
    (MOVING, "kind: sum", "kind: mean",
     "29:5: streams.0.groups: the mean of a group needs its public size: give `sizes`, or a table of groups"),
    (MEANS, "most_per_person: 1", "most_per_person: 1\n      sizes: {north: 1, sout: 2}",
     "29:5: streams.0.groups: unknown group in sizes 'sout': did you mean 'south'? Known: north, south"),
    (MEANS, "most_per_person: 1", "most_per_person: 1\n      sizes: {north: 9}",
     "29:5: streams.0.groups: sizes: 'north' has 9 people, more than the population (4)"),
    (MOVING, "most_per_person: 1", "most_per_person: 1\n      sizes: {north: x}",
     "32:15: streams.0.groups.sizes.north: must be a whole number, not 'x'"),
    (MOVING, "most_per_person: 1", "most_per_person: 1\n      sizes: {north: }",
     "32:15: streams.0.groups.sizes.north: is blank: fill it in, or delete the line"),
    (MOVING, "[north, south]", "[north, '']", "30:22: streams.0.groups.names.1: must not be empty, not ''"),
    # A histogram
    (HISTOGRAM, "[0, 1, 2]", "[0, 2, 1]",
     "26:7: streams.0.statistic.edges: the edges of a histogram must increase: '1' does not"),
    (HISTOGRAM, "[0, 1, 2]", "[0, 1, 1]",
     "26:7: streams.0.statistic.edges: the edges of a histogram must increase: '1' does not"),
    (HISTOGRAM, "[0, 1, 2]", "[0]", "26:7: streams.0.statistic.edges: must have at least 2 items, not 1"),
    (HISTOGRAM, "      edges: [0, 1, 2]\n", "",
     "22:5: streams.0.statistic.edges: missing: a histogram needs the bounds of its bins"),
    (HISTOGRAM, "fold: sum", "fold: sum\n      missing: 1",
     "28:7: streams.0.statistic.missing: a histogram has no `missing`: leave it out"),
    # A weighted sum
    (WEIGHTED, "largest: 5", "largest: 0",
     "28:7: streams.0.statistic.weights: the largest weight must be at least the resolution, and both above 0"),
    (WEIGHTED, "largest: 5", "largest: nan",
     "28:7: streams.0.statistic.weights: a quantity must be a number, such as '5', not 'nan'"),
    (WEIGHTED, "weight: weight", "weight: wait",
     "28:7: streams.0.statistic.weights: homes.csv has no column 'wait': did you mean 'weight'? It has: who, "
     "where, weight"),
    (WEIGHTED, "homes.csv, person: who, w", "words.csv, person: who, w",
     "28:7: streams.0.statistic.weights: a quantity must be a number, such as '5', not 'heavy'"),
    (WEIGHTED, "largest: 5", "largest: 1e30",
     "28:7: streams.0.statistic.weights: the largest weight is more than 1,099,511,627,776 resolutions: choose "
     "a coarser resolution"),
    # Two streams
    (TWO, "share: 0.7", "share: 0.8", "17:5: streams.0.share: the shares add up to 1.1, more than the whole promise"),
    (TWO, "    share: 0.7\n", "", "16:5: streams.0.share: missing: some streams have a share, so each needs one"),
    (TWO, "name: more", "name: load", "40:5: streams.1.name: 'load' stands twice: give each stream its own name"),
    (TWO, "more.csv", "./load.csv",
     "43:5: streams.1.output: './load.csv' is the output of 'load' already: give each stream its own output"),
    (TWO, "output: more.csv", "output: more.csv\nledger: more.csv",
     "43:5: streams.1.output: 'more.csv' is a file of the ledger already: give each stream its own output"),
    # w-event counts by data time
    (WINDOWS, "name: more", "name: more\n    step: 31 days",
     "41:5: streams.1.step: the oldest data of a step of 'more' is 1487 steps of the clock old when it is published, and beside "
     "streams of narrower steps w-event then no longer remembers what was said about that time: it must be less than 50; choose "
     "narrower steps, or a longer window"),
    (WEVENT, "w: 1 day", "w: 45 min", "9:3: promise.w: 45 min is no whole number of steps of 30 min"),
    (WEVENT, "w: 1 day", "w: 0", "9:3: promise.w: w must be at least 1, not 0"),
    # Keys that would have no effect
    (GOOD, "      time: ts\n", "      table: meters\n      time: ts\n",
     "19:7: streams.0.source.table: a csv file has no tables: leave this out, or give a DuckDB or SQLite file"),
    (GOOD, "readings.csv\n", "meters.db\n      format: parquet\n      table: meters\n",
     "20:7: streams.0.source.table: a parquet file has no tables: leave this out, or give a DuckDB or SQLite file"),
    (GOOD, "      zone: Europe/Paris", "      zone: Europe/Paris\n      epoch: ms",
     "21:7: streams.0.source.zone: times that are numbers since 1970 (`epoch: ms`) are in UTC: leave this out"),
    (TWO, "{kind: count}", "{kind: count, duplicates: each}",
     "42:30: streams.1.statistic.duplicates: a person with any reading counts once in a count of people: leave this out"),
    (MOVING, "most_per_person: 1", "most_per_person: 1\n      sizes: {north: 1, south: 2}",
     "32:7: streams.0.groups.sizes: a sum is not divided by the sizes of groups: leave this out"),
    # YAML
    (GOOD, "  size: 4", "  size: 4\n  size: 5", "5:3: population.size: stands twice (first on line 4): keep one"),
    (GOOD, "  id: town", "  <<: {a: b}\n  id: town", "3:3: a key must be a plain word"),
    (GOOD, "  id: town", "\tid: town", "3:1: not YAML: found character '\\t' that cannot start any token"),
    (GOOD, "id: town", "id: a: b", "3:8: not YAML: mapping values are not allowed here"),
    (GOOD, "id: town", "id: *town", "3:7: not YAML: found undefined alias 'town'"),
    (GOOD, "id: town", "id: &a [*a]", "3:7: too deep or too many parts for a policy: keep tables in files"),
    (GOOD, "id: town", "? [a]\n  : b", "3:5: a key must be a plain word"),
    (GOOD, "id: town", "id: \"\\q\"", "3:9: not YAML: found unknown escape character 'q'"),
    (GOOD, "clock:", "---\nclock:", "10:1: not YAML: but found another document"),
]
# fmt: on


@pytest.fixture
def folder(tmp_path):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    return write_tables(tmp_path)


@pytest.mark.parametrize("text", [GOOD, MOVING, HISTOGRAM, WEIGHTED, TWO, WEVENT])
def test_what_is_broken_below_is_good_before(folder, text):
    Policy.parse(text, folder)


@pytest.mark.parametrize(
    ("text", "old", "new", "said"), BAD, ids=[f"{new.strip() or 'no ' + old.strip()!s:.40}" for _, old, new, _ in BAD]
)
def test_a_bad_policy_is_refused_with_its_place(folder, text, old, new, said):
    with pytest.raises(PolicyError) as error:
        Policy.parse(change(old, new, text), folder)
    assert str(error.value).replace("policy.yaml:", "") == said
    assert all(line.startswith("policy.yaml:") for line in str(error.value).splitlines())


def test_every_problem_of_the_shape_is_named_at_once(folder):
    text = change("size: 4", "size: many", change("zone: Europe/London", "zoan: UTC", change("fold: sum", "fold: som")))
    with pytest.raises(PolicyError) as error:
        Policy.parse(text, folder)
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == [
        "population.size", "clock.zoan", "streams.0.statistic.fold",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "# nothing\n", "hello", "- a\n- b", "42", "~"])
def test_what_is_no_policy_at_all_is_refused(text):
    with pytest.raises(PolicyError, match="a policy is a mapping with population, promise, clock and streams"):
        Policy.parse(text)


def test_files_that_cannot_be_policies_are_refused(tmp_path):
    def refusal(content):
        (tmp_path / "p.yaml").write_bytes(content)
        with pytest.raises(PolicyError) as error:
            Policy.load(tmp_path / "p.yaml")
        return str(error.value)

    assert refusal("id: Zürich".encode("latin-1")).endswith("p.yaml: not UTF-8 text (byte 5): save it as UTF-8")
    assert "larger than 1,000,000 bytes" in refusal(b"# " + b"x" * LARGEST)
    assert "special characters are not allowed" in refusal(b"a: \x01")
    with pytest.raises(PolicyError, match=r"nowhere.yaml: cannot be read: No such file"):
        Policy.load(tmp_path / "nowhere.yaml")
    with pytest.raises(PolicyError, match="cannot be read: Is a directory"):
        Policy.load(tmp_path)
    with pytest.raises(PolicyError, match="larger than"):
        Policy.parse("x" * (LARGEST + 1))


def bomb(levels):
    """Nine times as many parts at each level: 9⁹ at nine of them."""
    names = "abcdefghijklmnopqr"[:levels]
    return "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in pairwise(names)
    )


def refuse_to_parse(text, words):
    with pytest.raises(PolicyError) as error:
        Policy.parse(text)
    assert words in str(error.value)


def test_anchors_that_unfold_without_end_are_refused_soon():
    """Twice as many levels take about twice the work where they have 9⁹ times as many parts."""
    refuse_to_parse(bomb(2), "")
    refuse_to_parse(bomb(7), "too many parts")
    taken = [work(lambda n=n: refuse_to_parse(bomb(n), "too deep or too many parts")) for n in (9, 18)]
    assert taken[1] <= 4 * taken[0]
    refuse_to_parse("[" * 1_000, "")
    refuse_to_parse("{a: " * 30 + "1" + "}" * 30, "")


def test_a_tilde_that_leads_nowhere_is_refused(folder):
    for old, new, place in (("homes.csv", "~no-such-user/h.csv", "31:9"), ("load.csv", "~no-such-user/l.csv", "38:5")):
        with pytest.raises(PolicyError, match="write the folder out") as error:
            Policy.parse(change(old, new), folder)
        assert str(error.value).startswith(f"policy.yaml:{'30:7' if place == '31:9' else place}: ")
    with pytest.raises(PolicyError, match=r"policy.yaml:39:1: ledger: .* write the folder out"):
        Policy.parse(GOOD + "ledger: ~no-such-user/l\n", folder)


def test_a_policy_from_a_program_is_refused_by_its_keys(folder):
    with pytest.raises(PolicyError) as error:
        Policy.from_dict({"population": {"id": "a", "size": True, "person": 3}, 7: 8})
    lines = str(error.value).splitlines()
    assert "policy: population.size: must be a number, not True" in lines
    assert any("7" in line for line in lines)
    for bad in (None, [], "x", 3):
        with pytest.raises(HalflifeError):
            Policy.from_dict(bad)


def test_a_table_larger_than_its_population_is_refused_whichever_it_is(folder):
    (folder / "heavy.csv").write_text("who,weight\n" + "".join(f"{i},1\n" for i in range(5)))
    with pytest.raises(PolicyError, match="5 people, more than the population"):
        Policy.parse(change("{file: homes.csv", "{file: heavy.csv", WEIGHTED), folder)


def test_more_numbers_than_a_step_can_hold_are_refused(folder):
    edges = ", ".join(map(str, range(2_001)))
    names = ", ".join(f"g{i}" for i in range(6_000))
    text = change(
        "[0, 1, 2]",
        f"[{edges}]",
        change("      table:", f"      names: [north, south, {names}]\n      table:", HISTOGRAM),
    )
    with pytest.raises(PolicyError, match=r"streams.0: a step has 12,004,000 numbers"):
        Policy.parse(text, folder)


def test_where_each_key_stands():
    places = parse_document("a:\n  - b: 1\n    c: [x,\n y]\n").places
    assert places[("a", 0, "c")] == (3, 5)
    assert places[("a", 0, "c", 1)] == (4, 2)


# Files that are written to and read from ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", ".operator.jsonl", ".lock", ".shown", ".behind", "-wal", "-shm", "-journal"])
def test_the_files_of_the_ledger_are_its_own(folder, ending):
    """Some of them end as no output may; all are asked for as sources, too."""
    text = GOOD + "ledger: town.csv\n"
    with pytest.raises(PolicyError, match=r"policy.yaml:18:\d+: streams.0.source.files.0: .*a file of the ledger"):
        Policy.parse(change("files: readings.csv", f"files: ['town.csv{ending}']", text), folder)
    if ending in ("", ".operator.jsonl"):
        with pytest.raises(PolicyError, match=r"38:5: streams.0.output: 'town.csv.*' is a file of the ledger already"):
            Policy.parse(change("output: load.csv", f"output: town.csv{ending}", text), folder)


def test_an_output_beside_the_operator_file_is_no_output(folder):
    with pytest.raises(PolicyError, match=r"38:5: streams.0.output: .*is a file of the ledger already"):
        Policy.parse(change("output: load.csv", "output: policy.ledger.operator.jsonl"), folder)


TAKES_IN = [
    ("'*.csv'", "load.csv"),
    ("'*.csv'", "./x/../load.csv"),
    ("['a.csv', '[k-m]oad.???']", "load.csv"),
    ("'**/*.parquet'", "a/b/load.parquet"),
    ("'**/*.parquet'", "load.parquet"),
    ("'out/*.parquet'", "out/"),
    ("'**'", "a/load.csv"),
    ("load.csv", "load.csv"),
    ("'lo[a]d.csv'", "load.csv"),
    ("'link/*.csv'", "real/load.csv"),
]


@pytest.mark.parametrize(("files", "output"), TAKES_IN)
def test_what_is_published_is_not_read_back(folder, files, output):
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real")
    text = change("files: readings.csv", f"files: {files}", change("output: load.csv", f"output: {output}"))
    text += "ledger: /nowhere/town.ledger\n"
    with pytest.raises(PolicyError) as error:
        Policy.parse(text, folder)
    source, written = str(error.value).splitlines()
    assert source.startswith("policy.yaml:18:")
    assert "streams.0.source.files" in source
    assert "takes in" in source
    assert written.startswith("policy.yaml:38:5: streams.0.output: ")


@pytest.mark.parametrize("files", ["'policy*'", "'*.ledger'", "'*'", "'*-wal'"])
def test_nor_is_the_ledger(folder, files):
    text = change("files: readings.csv", f"files: {files}", change("output: load.csv", "output: '-'"))
    with pytest.raises(PolicyError, match=r"policy.yaml:18:.*a file of the ledger"):
        Policy.parse(text, folder)


APART = [
    ("'data/*.csv'", "load.csv"),
    ("'data/*.csv'", "data/out/load.csv"),
    ("'*.csv'", "out/load.csv"),
    ("'readings-*.csv'", "load.csv"),
    ("'*.csv'", "-"),
    ("'**/*.csv'", ".hidden/load.csv"),
    ("'**/*.csv'", "load.jsonl"),
    ("'~nobody-of-this-name/*.csv'", "load.csv"),
]


@pytest.mark.parametrize(("files", "output"), APART)
def test_files_that_stay_apart_are_taken(folder, files, output):
    Policy.parse(
        change("files: readings.csv", f"files: {files}", change("output: load.csv", f"output: '{output}'")), folder
    )


def test_the_output_of_another_stream_is_not_read_either(folder):
    with pytest.raises(PolicyError) as error:
        Policy.parse(change("files: readings.csv", "files: mor*.csv", TWO), folder)
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == [
        "streams.0.source.files.0",
        "streams.1.output",
    ]


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["a", "b.csv", ".c", "ab"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["**", "*", "a", "a*", "?", "*.csv", ".c", ".*", "[ab]"]), min_size=1, max_size=4),
)
def test_a_pattern_takes_in_what_glob_finds(path, pattern):
    with tempfile.TemporaryDirectory() as root:
        file = Path(root, *path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        found = glob.glob(str(Path(root, *pattern)), recursive=True)
        assert matches(str(file), str(Path(root, *pattern))) == (str(file) in found)


# Times that do not fit ----------------------------------------------------------------------------------------------


def test_a_time_that_is_no_whole_number_of_steps_is_said_in_these_words(folder):
    text = change("step: 30 min", "step: 7 min", change("  end: 2026-02-01\n", "", WEVENT)).replace(
        "delay: 1 h", "delay: 7 min"
    )
    with pytest.raises(PolicyError, match=r"9:3: promise.w: 1 day is no whole number of steps of 7 min$"):
        Policy.parse(text, folder)
    Policy.parse(text.replace("w: 1 day", "w: 7 h"), folder)
    Policy.parse(text.replace("w-event", "exponential").replace("w: 1 day", "half_life: 1 day"), folder)
