"""Is a series almost periodic? Checks, proposals and pictures."""
