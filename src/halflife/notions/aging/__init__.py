"""How losses about a person's moving state add up: one rule a file, each for what is known of the process."""
