"""How one person's data moves: processes, and how much of a loss is left as data ages."""

from halflife.processes.base import PROCESSES, Process
from halflife.processes.markov import MarkovChain
from halflife.processes.mixing import GeometricMixing

__all__ = ["PROCESSES", "GeometricMixing", "MarkovChain", "Process"]
