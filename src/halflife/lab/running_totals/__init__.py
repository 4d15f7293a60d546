"""Running totals with correlated Gaussian noise, simulated: factorisations of the matrix of prefix sums.

Each output measures all steps so far. An account that takes one release after another, each with a bound on what a step
moves it by, would charge every one of them to every later window, and has no way to be told that their *joint* loss is one
number. So these live here and draw nothing that may be published; `mechanisms/binary_tree.py` is a running total that can be.
"""
