"""`python -m halflife.cli`: the command line."""

from halflife.cli import main

main(prog_name="halflife")
