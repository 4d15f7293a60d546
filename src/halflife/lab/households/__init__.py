"""Generated households: appliances and their readings."""
