"""How one person's data moves: processes, and how much of a loss is left as data ages."""

from halflife.processes.autoregressive import AutoRegressive
from halflife.processes.base import PROCESSES, Process
from halflife.processes.empirical import EmpiricalProcess
from halflife.processes.family import ProcessFamily
from halflife.processes.graphs import graph_bound, walk_on_graph
from halflife.processes.markov import MarkovChain
from halflife.processes.mixing import GeometricMixing
from halflife.processes.periodic import PeriodicMarkovChain

__all__ = [
    "PROCESSES",
    "AutoRegressive",
    "EmpiricalProcess",
    "GeometricMixing",
    "MarkovChain",
    "PeriodicMarkovChain",
    "Process",
    "ProcessFamily",
    "graph_bound",
    "walk_on_graph",
]
