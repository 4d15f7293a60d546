"""Published figures on households and their appliances, each with its source: the table behind `appliances.generate`.

**What is mixed.** People, ownership, holidays and yearly totals are German, because the paper's own generator (Gottwalt et
al. 2011, "Demand side management: a simulation of household behavior under variable prices", Energy Policy 39) is. How
often an appliance is used, for how long and with what power comes from the British CREST model, the one complete table
in the open: Richardson, Thomson, Infield, Clifford 2010, "Domestic electricity use: a high-resolution energy demand
model", Energy and Buildings 42 (below: CREST, checked against its published table of appliances, version 1.0d).

**What was not done.** No figure was fitted to the results of any paper. "Rounded" marks what is approximate: a figure read
from a diagram, remembered, or chosen by us within the range that the named source allows.
"""

from __future__ import annotations

from typing import NamedTuple

SIZES = (0.42, 0.34, 0.12, 0.09, 0.03)
"""Share of households of 1, 2, 3, 4 and at least 5 people. Destatis, Mikrozensus 2018 (press release, July 2019)."""

KWH_BY_SIZE = (1900.0, 2890.0, 3720.0, 4085.0, 4500.0)
"""Electricity of a household of 1, 2, 3, 4, 5 people in kWh a year. BDEW 2020; five people: rounded, extrapolated."""

COLD_SHARE = 0.22
"""Share of fridges and freezers in the electricity of all households. BDEW 2018."""

HABITS = (0.4, 1.6)
"""How much more or less than the mean a household uses its appliances: uniform between these. Rounded: the range of 562
to 14,485 kWh a year among 250 homes (Household Electricity Survey, Intertek and DECC 2012; Palmer et al. 2013) is that of a
logarithm with a spread of about 0.58, of which household size and ownership explain about 0.4, and this the rest."""

RATING_SPREAD = 0.1
"""Standard deviation of an appliance's power between homes, as a share of the mean; cut off at three of them.
CREST version 2 (McKenna and Thomson 2016, Applied Energy 165); from memory."""

MAIN_TRIP, SECOND_TRIP = 0.78, 0.22
"""Chance of a holiday trip of five days or more in a year, and of a further one. Reiseanalyse 2019 (FUR): 78 % of people
travelled; 22 % of 71 million trips by 70 million people were further ones. A household is taken to travel together."""

TRIP_DAYS = (5, 20)
"""Shortest and longest trip in days, mean 12.5. Reiseanalyse 2021: 12 to 13 days on average; the ends: rounded."""

SUMMER_SHARE = 0.6
"""Share of main trips that begin in June, July or August; the rest at any time. Reiseanalyse; rounded, from memory."""

LONGEST_MINUTES = 24 * 60.0
"""No cycle is longer than a day (ours: cuts the far tail of the television's and computer's distributions)."""

PROFILES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "level": ((1,) * 24, (1,) * 24),
    "presence": (
        (15, 7, 4, 3, 3, 6, 20, 45, 52, 50, 48, 46, 48, 46, 44, 48, 57, 67, 73, 75, 76, 73, 61, 35),
        (20, 10, 5, 4, 3, 4, 9, 22, 42, 57, 61, 59, 61, 59, 56, 57, 61, 66, 70, 71, 72, 70, 61, 40),
    ),
    "television": (
        (21, 7, 3, 1, 1, 2, 3, 10, 15, 19, 25, 23, 23, 31, 32, 39, 54, 59, 77, 113, 137, 144, 110, 53),
        (28, 10, 4, 2, 1, 1, 1, 7, 13, 22, 29, 34, 32, 38, 48, 59, 63, 63, 74, 106, 134, 139, 113, 59),
    ),
    "cooking": (
        (5, 2, 1, 1, 2, 7, 28, 60, 61, 50, 34, 42, 72, 52, 41, 48, 92, 132, 109, 66, 39, 28, 21, 11),
        (7, 3, 1, 1, 2, 4, 10, 26, 54, 61, 58, 64, 96, 72, 53, 47, 74, 100, 91, 56, 34, 24, 19, 13),
    ),
    "laundry": (
        (3, 1, 0, 0, 0, 0, 4, 25, 81, 112, 140, 129, 79, 59, 73, 59, 68, 36, 42, 29, 22, 20, 13, 6),
        (4, 1, 0, 0, 0, 0, 1, 18, 56, 100, 129, 124, 87, 80, 68, 55, 63, 52, 32, 38, 28, 17, 11, 9),
    ),
    "washing": (
        (17, 9, 3, 2, 6, 15, 73, 154, 139, 91, 57, 34, 21, 14, 12, 17, 21, 30, 45, 46, 43, 46, 68, 39),
        (23, 13, 4, 3, 6, 10, 21, 61, 101, 108, 82, 58, 37, 25, 19, 15, 21, 29, 50, 47, 35, 34, 52, 41),
    ),
    "ironing": (
        (1, 0, 0, 0, 0, 0, 9, 15, 9, 33, 88, 102, 39, 61, 92, 109, 85, 48, 55, 86, 81, 50, 28, 8),
        (1, 0, 0, 0, 0, 0, 0, 6, 15, 47, 80, 91, 87, 60, 84, 96, 94, 76, 69, 56, 71, 55, 33, 12),
    ),
    "cleaning": (
        (2, 1, 1, 0, 1, 2, 6, 27, 80, 160, 173, 122, 65, 58, 63, 50, 43, 35, 32, 31, 23, 12, 10, 4),
        (3, 2, 1, 1, 1, 1, 5, 16, 61, 160, 212, 173, 129, 84, 82, 77, 58, 55, 48, 39, 23, 14, 13, 9),
    ),
}
"""How likely a use begins in each hour of a weekday and of a Saturday or Sunday; the weekday adds up to about 1000.

"presence": people at home and awake, Richardson, Thomson, Infield 2008, Energy and Buildings 40; rounded, from memory. The
others: presence times the hourly mean of CREST's table of activities (UK Time Use Survey 2000, homes with two people up;
cleaning on weekdays: one), where midnight to six o'clock, with few people up, is rounded.
"""


class Appliance(NamedTuple):
    """One line of the table.

    power       kW, the maximum in a cycle;  mean_power  kW, the mean over a cycle
    minutes     mean length of a cycle;  spread  its standard deviation as a share of the mean (gamma distribution)
    uses        cycles a year of a household that owns one, the mean over all sizes and over a year with its holidays
    owned       share of the households of 1, 2, 3, 4, 5 people that own one
    grows       whether its use differs with the household's size and habits;  profile  when in the day (`PROFILES`)
    winter      relative swing over the year: 1 + winter · cos, greatest in mid-January
    private     whether a cycle shows what people do (all but fridge and freezer)
    source      where the figures are from
    """

    name: str
    power: float
    mean_power: float
    minutes: float
    spread: float
    uses: float
    owned: tuple[float, ...]
    grows: bool
    profile: str
    winter: float
    private: bool
    source: str


def _all(share: float) -> tuple[float, ...]:
    return (share,) * len(SIZES)


_LENGTH = "spread of lengths: rounded (ours)."
_SEASON = "season: rounded, below the swing of 0.23 of the VDEW profile H0 (1999), which includes lighting."
_EVS = "ownership: Destatis, "

APPLIANCES = (
    Appliance(
        "fridge", 0.190, 0.190, 22, 0.1, 6116, _all(0.999), False, "level", 0.0, False,
        f"CREST, fridge freezer: 190 W, 22 min, 6,116 cycles; {_EVS}running household budgets 2019: 99.9 %; {_LENGTH}",
    ),
    Appliance(
        "freezer", 0.155, 0.155, 20, 0.1, 6116, _all(0.478), False, "level", 0.0, False,
        f"CREST, upright freezer: 155 W, 20 min, 6,116 cycles; {_EVS}EVS 2018 (IT.NRW): 47.8 %; {_LENGTH}",
    ),
    Appliance(
        "hob", 2.4, 2.4, 16, 0.5, 418, _all(0.984), True, "cooking", 0.1, True,
        f"CREST: 2.4 kW, 16 min, 418 cycles; {_EVS}EVS 2013: 98.4 % electric cookers; {_LENGTH} {_SEASON}",
    ),
    Appliance(
        "oven", 2.125, 2.125, 27, 0.5, 220, _all(0.984), True, "cooking", 0.1, True,
        f"CREST: 2.125 kW, 27 min, 220 cycles; {_EVS}EVS 2013: 98.4 % electric cookers; {_LENGTH} {_SEASON}",
    ),
    Appliance(
        "microwave", 1.25, 1.25, 30, 0.5, 95, _all(0.756), True, "cooking", 0.0, True,
        f"CREST: 1.25 kW, 30 min, 95 cycles; {_EVS}EVS 2018 (IT.NRW): 75.6 %; {_LENGTH}",
    ),
    Appliance(
        "kettle", 2.0, 2.0, 3, 0.3, 1520, _all(0.975), True, "presence", 0.1, True,
        f"CREST: 2 kW, 3 min, 1,520 cycles, 97.5 % own one; it stands for all hot drinks; {_LENGTH} {_SEASON}",
    ),
    Appliance(
        "dishwasher", 2.0, 1.131, 60, 0.3, 241, (0.37, 0.69, 0.85, 0.85, 0.85), True, "cooking", 0.0, True,
        "CREST: mean 1.131 kW, 60 min, 241 cycles; 2 kW while heating: Stamminger 2009 (Smart-A, D2.3), rounded, from memory; "
        f"ownership: EVS 2013 (Thuringia): singles 37 %, couples 69 %, with children 85 %; {_LENGTH}",
    ),
    Appliance(
        "washing machine", 2.0, 0.406, 138, 0.3, 196, _all(0.958), True, "laundry", 0.0, True,
        "CREST: mean 0.406 kW, 138 min, 196 cycles; 2 kW while heating: Stamminger 2009 (Smart-A, D2.3), rounded, from "
        f"memory; {_EVS}running household budgets 2019: 95.8 %; {_LENGTH}",
    ),
    Appliance(
        "tumble dryer", 2.5, 2.5, 60, 0.3, 122, (0.14, 0.35, 0.55, 0.55, 0.55), True, "laundry", 0.3, True,
        "CREST: 2.5 kW, 60 min, 122 cycles; ownership: EVS 2013 (Thuringia): singles 14 %, couples 35 %, with children 55 %; "
        f"{_LENGTH} season: rounded; in good weather 90 % dry without it (survey of 5,284 people, doi 10.3139/113.110124).",
    ),
    Appliance(
        "television", 0.124, 0.124, 73, 1.1, 1464, _all(0.962), False, "television", 0.15, True,
        f"CREST, first set: 124 W, 73 min, 1,464 cycles; lengths 70 E^1.1 min, E exponential (from memory): spread 1.1; {_EVS}"
        f"running household budgets 2019: 96.2 %; further sets are left out; {_SEASON}",
    ),
    Appliance(
        "computer", 0.141, 0.141, 300, 0.5, 449, _all(0.916), False, "presence", 0.1, True,
        f"CREST: 141 W, 300 min, 449 cycles; {_EVS}running household budgets 2019: 91.6 %; {_LENGTH} {_SEASON}",
    ),
    Appliance(
        "vacuum cleaner", 2.0, 2.0, 20, 0.5, 110, _all(0.937), True, "cleaning", 0.0, True,
        f"CREST: 2 kW, 20 min, 110 cycles, 93.7 % own one; {_LENGTH}",
    ),
    Appliance(
        "iron", 1.0, 1.0, 30, 0.5, 35, _all(0.9), True, "ironing", 0.0, True,
        f"CREST: 1 kW, 30 min, 35 cycles, 90 % own one; {_LENGTH}",
    ),
    Appliance(
        "hair dryer", 1.5, 1.5, 8, 0.4, 120, _all(0.8), True, "washing", 0.0, True,
        "not in CREST. All rounded (ours): 1.5 kW, 8 min, 120 cycles, 80 % own one, about 19 kWh a year and household.",
    ),
    Appliance(
        "water heater", 3.0, 3.0, 20, 0.5, 2685, _all(0.17), True, "presence", 0.1, True,
        "CREST, electric storage heater: 3 kW, 20 min, 2,685 cycles, 17 % own one (hot water is 12 % of German household "
        f"electricity, BDEW 2018). Instantaneous heaters (9 kW and more) are left out; {_LENGTH} {_SEASON}",
    ),
)  # fmt: skip
"""What is modelled. Left out: lighting, standby, heating, electric showers, further televisions, small electronics."""
