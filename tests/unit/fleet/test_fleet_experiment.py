"""An experiment on a fleet, without one: what is refused, and what is left of a block that begins anew."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from experiments import EXPERIMENT, planted_definition
from lynxbench.errors import BadInput
from lynxbench.experiment.defining import Defined, parse_definition
from lynxbench.experiment.experiment_folder import ExperimentFolder
from lynxbench.experiment.experiment_run import open_experiment
from lynxbench.fleet.fleet_experiment import refuse_undispatchable
from lynxbench.fleet.fleet_jobs import JobDone, JobOptions
from lynxbench.model.fleet import AttemptNote, FleetUnit, UnitState
from served import served_contract

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SERVED = f"""\
lynxbench_experiment: 1
name: asked
question: Does it matter how many ask?
contract:
{textwrap.indent(served_contract("http://127.0.0.1:9"), "  ")}
factors:
  - {{name: seed, layer: demand, sets: workload.seed, levels: [1, 2]}}
"""
SERVER = 'server: {command: [serve, "{seqs}"], values: {seqs: 1}, ready: "http://127.0.0.1:9/"}\nfactors:'


def test_a_server_that_is_there_already_is_not_asked_by_all_nodes_at_once() -> None:
    with pytest.raises(BadInput, match="every node would ask the same server"):
        refuse_undispatchable(parse_definition(SERVED, "asked.yaml", Path()), JobOptions())


def test_a_server_a_node_starts_is_fine_while_nodes_of_a_host_take_turns() -> None:
    own = parse_definition(SERVED.replace("factors:", SERVER), "asked.yaml", Path())
    refuse_undispatchable(own, JobOptions())
    with pytest.raises(BadInput, match="a server is made for every visit"):
        refuse_undispatchable(own, JobOptions(together=True))


def test_a_block_that_begins_anew_forgets_its_own_visits_alone(tmp_path: Path) -> None:
    folder = ExperimentFolder.create(tmp_path, planted_definition(), NOW)
    for block, node in enumerate(("a", "b")):
        folder.give_block(block, node)
        folder.add_run(0, block, f"run-{block}")
        folder.add_visit(0, block)
        folder.add_failure(1, block, "does not fit")
        folder.add_visit(1, block)
    assert folder.drop_block(1) == 1
    again = ExperimentFolder.open(folder.path)
    assert again.state.nodes == {0: "a"}
    assert (again.cell(0).runs, again.cell(0).visited) == ({"0": "run-0"}, (0,))
    assert (again.cell(1).failed, again.cell(1).visited) == ({0: "does not fit"}, (0,))


def test_an_experiment_stays_where_it_was_begun(tmp_path: Path) -> None:
    defined = Defined(parse_definition(EXPERIMENT, "cells.yaml", Path()), tmp_path)
    begun = open_experiment(defined, tmp_path, resume=False)
    with pytest.raises(BadInput, match=r"begun here, .* go on without --ray"):
        open_experiment(defined, tmp_path, resume=True, dispatched=True)
    assert open_experiment(defined, tmp_path, resume=True).path == begun.path


@pytest.mark.parametrize(
    ("state", "ends", "lost"),
    [
        (UnitState.LOST, ("node lost",), True),
        (UnitState.LOST, ("worker lost", "node lost"), True),
        (UnitState.LOST, ("worker lost",) * 3, False),
        (UnitState.LOST, (), True),
        (UnitState.FAILED, ("failed",), False),
    ],
)
def test_a_lost_node_says_nothing_of_the_job_but_a_worker_lost_three_times_does(
    state: UnitState, ends: tuple[str, ...], lost: bool
) -> None:
    attempts = tuple(AttemptNote(node="a", ended=end, seconds=1.0) for end in ends)
    assert JobDone(FleetUnit(name="x", node="a", state=state, attempts=attempts), None).node_lost is lost
