"""Speed and memory of a training step: ours, and two of TRL's trainers on equal work."""

from learners.throughput.contenders import CONTENDERS, Contender, measure, measure_engines, quiet
from learners.throughput.kept import Kept
from learners.throughput.records import EngineRow, Measured, Prompts, Step, Work
from learners.throughput.summary import Goal, Row, goals, rows

__all__ = [
    "CONTENDERS",
    "Contender",
    "EngineRow",
    "Goal",
    "Kept",
    "Measured",
    "Prompts",
    "Row",
    "Step",
    "Work",
    "goals",
    "measure",
    "measure_engines",
    "quiet",
    "rows",
]
