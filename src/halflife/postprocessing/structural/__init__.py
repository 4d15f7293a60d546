"""A structural time-series model of published values (level, day, week, year), with the known noise of every step."""
