"""Experiments and tunings that end in seconds, and documents made from planted responses."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from lynxbench.experiment.cells import plan_cells
from lynxbench.experiment.defining import parse_definition
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.experiment_folder import ExperimentFolder
from lynxbench.experiment.experiment_outcome import describe
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.stats.designs import Cell

WORK = """\
import os
import time

SLOW = float(os.environ.get("WORK_SLOW", "1"))
WIDE = os.environ.get("WORK_WIDE") == "1"
CHEAT = os.environ.get("WORK_CHEAT") == "1"
if WIDE and SLOW > 2:
    raise RuntimeError("wide and slow do not fit")

def step():
    for _ in range(round(SLOW * (1 if WIDE or CHEAT else 5))):
        time.sleep(0.0015)
    return 2.0 if CHEAT else 1.0
"""
"""It waits instead of computing, once or five times as often: each wait is as late as the machine makes it, so that
cells differ as planned on one that others use too."""

CONTRACT = """\
  lynxbench: 1
  name: work
  question: How many steps a second?
  regime: throughput
  workload:
    task: callable
    model: {source: callable, target: "working:step"}
    precisions: [fp32]
  engine: {name: callable, threads: 1}
  protocol:
    steady: {drift: 20 %, window: 20 ms}
    min_duration: 200 ms
    limit: 300 ms
    foreign_load: 100 %
"""

EXPERIMENT = f"""\
lynxbench_experiment: 1
name: work-cells
question: Do slow and wide act on each other?
contract:
{CONTRACT}
restarts: 2
factors:
  - {{name: slow, layer: application, sets: environment.WORK_SLOW, levels: [1, 3]}}
  - {{name: wide, layer: runtime, sets: environment.WORK_WIDE, levels: [0, 1]}}
"""

VERSIONS = f"""\
lynxbench_experiment: 1
name: upgrade
question: What would this upgrade do?
contract:
{CONTRACT.replace("working:step", "upgrading:step")}
restarts: 2
factors:
  - {{name: tinylayer, layer: framework, sets: packages, levels: [tiny-1.0.txt, tiny-2.0.txt]}}
"""

UPGRADING = """\
import time

import tinylayer


def step():
    for _ in range(round(16 / tinylayer.SPEED**2)):
        time.sleep(0.0015)
    return 1.0
"""

PLANTED = """\
lynxbench_experiment: 1
name: planted
question: Do threads, graph and batch act on each other?
contract:
  lynxbench: 1
  name: planted-cell
  question: How many sentences a second?
  regime: throughput
  workload:
    task: embed
    model: {source: package, name: all-minilm-l6-v2}
    precisions: [fp32]
    input_tokens: {distribution: fixed, value: 16}
  engine: {name: torch, device: cpu}
restarts: 5
factors:
  - {name: threads, layer: system, sets: engine.threads, levels: [1, 2]}
  - {name: graph, layer: runtime, sets: engine.graph, levels: [eager, compile]}
  - {name: batch, layer: serving, sets: workload.batch, levels: [1, 16]}
"""


def planted_definition(text: str = PLANTED) -> Definition:
    """A definition whose responses are planted, never measured."""
    return parse_definition(text, "planted.yaml", Path())


def planted_values(definition: Definition, interaction: float, noise: float = 0.004) -> dict[tuple[Cell, int], float]:
    """Responses with main effects of 30 and 10 % and one interaction of the first two factors."""
    rng = np.random.default_rng(7)
    return {
        (cell, block): 100
        * math.exp(0.3 * cell[0] + 0.1 * cell[1] + interaction * cell[0] * cell[1] + rng.normal(0, noise))
        for cell in definition.plan().cells
        for block in range(definition.restarts)
    }


def planted_document(folder: Path, interaction: float, noise: float = 0.004, text: str = PLANTED) -> ExperimentDocument:
    """The document of an experiment with planted responses."""
    definition = planted_definition(text)
    made = ExperimentFolder.create(folder, definition, datetime(2026, 1, 1, tzinfo=UTC))
    values = planted_values(definition, interaction, noise)
    return describe(made, plan_cells(definition), values, datetime(2026, 1, 1, tzinfo=UTC))
