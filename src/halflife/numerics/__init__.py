"""Numbers: directed rounding, exact sums, bisection, array types, fading weights and power series."""
