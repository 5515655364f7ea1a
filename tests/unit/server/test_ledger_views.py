"""What pages read: quick lists equal slow ones, and one damaged entry closes no page."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from analysed import planted_experiment, sign_in_ledger
from compared import make_contract, make_result
from hosted import World, make_world
from lynxbench.compare.stack_signals import read_signals
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.queries import ListedFigure, Wanted, find_result, list_results
from lynxbench.model.figures import Figure
from lynxbench.record.histories import Past, history_of, record_of
from lynxbench.server.ledger_views import cell_contracts, contract_ids, executor_ids, shown_figure
from lynxbench.server.page_past import PagePast
from recording_teams import record


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("read"), decisions=False)


def test_executors_are_counted_and_the_newest_comes_first(world: World) -> None:
    counted: dict[str, list[str]] = {}
    for one in list_results(world.server.ledger.log, Wanted(limit=None)):
        counted.setdefault(one.executor_id, []).append(one.started_at)
    slowly = {(name, len(times), max(times)) for name, times in counted.items()}
    found = executor_ids(world.server)
    assert len(slowly) > 1
    assert set(found) == slowly
    assert [newest for *_, newest in found] == sorted((newest for *_, newest in slowly), reverse=True)
    assert executor_ids(world.server, 1) == found[:1]


def test_one_damaged_entry_leaves_a_gap_and_closes_no_page(world: World) -> None:
    server = world.server
    contract_id, before, after = world.results[0].contract_id, world.results[13], world.results[14]
    whole = history_of(PagePast(server), contract_id, None)
    change = next(one for one in whole.changes if one.found)
    assert any(layer.fields for layer in change.layers), "the documents on both sides were opened"
    recorded = find_result(server.ledger.log, before.result_id)
    assert recorded is not None
    file = Path(str(server.ledger.log.database.url.database))
    _damage(file, recorded.seq)
    past = PagePast(server)
    kept = past.recorded(server.ledger, [before.result_id, after.result_id])
    assert set(kept) == {after.result_id}
    found = history_of(past, contract_id, None)
    readable = [point.result_id for point in whole.points if point.result_id != before.result_id]
    assert [point.result_id for point in found.points] == readable, "figures come from entries: of a damaged one, none"
    assert any(one.found for one in found.changes)
    signals = read_signals(record_of(past, contract_id))
    assert signals.contract_id == contract_id
    with pytest.raises(EvidenceInvalid):
        history_of(Past(server.ledger, server.trust), contract_id, None)


def test_cells_of_an_experiment_are_no_contracts_of_the_overview(world: World, tmp_path: Path) -> None:
    ledger, key = world.server.ledger, world.team.key
    contracts = [make_contract(engine={"name": "torch", "device": "cpu", "threads": n}) for n in (3, 5, 7)]
    made = [
        make_result(contract=contract).model_copy(update={"run_id": f"cell-{n}"})
        for n, contract in enumerate(contracts)
    ]
    cells = [record(ledger, result, key) for result in made]
    sign_in_ledger(ledger, planted_experiment(tmp_path, cells[:2]), key, cells[:2], [b"{}", b"{}"])
    alone = make_result(contract=contracts[1], run_means=(50.0, 51.0, 49.0, 50.5, 49.5))
    record(ledger, alone.model_copy(update={"run_id": "alone"}), key)
    hidden = cell_contracts(world.server)
    assert cells[0].contract_id in hidden, "nothing but a cell"
    assert cells[1].contract_id not in hidden, "somebody ran it by itself as well"
    assert cells[2].contract_id not in hidden, "no experiment cites it"
    assert world.results[0].contract_id not in hidden
    assert cells[0].contract_id in {name for name, _ in contract_ids(world.server)}, "the list of all contracts has it"


def test_the_valid_precision_stands_for_a_result(world: World) -> None:
    (latest,) = list_results(world.server.ledger.log, Wanted(limit=1))
    rate = Figure(low=1.0, estimate=2.0, high=3.0, unit="tokens/s")
    skipped = ListedFigure("fp8", None, "valid", None, ())
    doubtful = ListedFigure("bf16", rate, "doubtful", "inconclusive", (2.0,))
    valid = ListedFigure("fp32", rate, "valid", "steady", (2.0,))
    for figures, chosen in (
        ((skipped, doubtful, valid), valid),
        ((skipped, doubtful), doubtful),
        ((valid, doubtful), valid),
        ((skipped,), None),
        ((), None),
    ):
        assert shown_figure(replace(latest, figures=figures)) is chosen
    assert shown_figure(None) is None


def _damage(file: Path, seq: int) -> None:
    """As somebody would who may write the file: the guards go first."""
    connection = sqlite3.connect(file)
    try:
        connection.execute("DROP TRIGGER ledger_entries_no_update")
        (data,) = connection.execute("SELECT envelope FROM ledger_entries WHERE seq = ?", (seq,)).fetchone()
        connection.execute("UPDATE ledger_entries SET envelope = ? WHERE seq = ?", (data[:-9] + b"?" + data[-8:], seq))
        connection.commit()
    finally:
        connection.close()
