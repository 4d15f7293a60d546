"""A good policy to break, and the public tables beside it."""

from __future__ import annotations

GOOD = """\
halflife: 1
population:
  id: town
  size: 4
  person: who
promise:
  notion: exponential
  epsilon: 1
  half_life: 1 day
clock:
  step: 30 min
  start: 2026-01-01
  end: 2026-02-01
  zone: Europe/London
streams:
  - name: load
    source:
      files: readings.csv
      time: ts
      value: kwh
      zone: Europe/Paris
    statistic:
      kind: sum
      unit: kWh
      resolution: 1 Wh
      clip: [0, 5 kWh]
      fold: sum
      missing: 0.2
    groups:
      table:
        file: homes.csv
        person: who
        group: where
    delay: 1 h
    post:
      - truncate: [0, 20]
      - moving_average: 4
    output: load.csv
"""

HOMES = "who,where,weight\na,north,2\nb,south,-3\nc,north,0.6\nd,south,9\n"


def change(old, new, text=GOOD):
    """The policy with one part replaced, which must stand in it exactly once."""
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def moving(text=GOOD):
    """The same with groups that may change."""
    text = change(
        "      table:\n        file: homes.csv\n        person: who\n        group: where\n",
        "      names: [north, south]\n      most_per_person: 1\n",
        text,
    )
    return change(
        "      missing: 0.2\n", "", change("      value: kwh\n", "      value: kwh\n      group: where\n", text)
    )


def write_tables(folder):
    (folder / "homes.csv").write_text(HOMES)
    return folder
