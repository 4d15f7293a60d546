"""Documents with positions, and quantities with units."""
