"""What pages read: quick lists equal slow ones, and one damaged entry closes no page."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from hosted import World, make_world
from lynxbench.compare.stack_signals import read_signals
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.queries import Wanted, find_result, list_results
from lynxbench.record.histories import Past, history_of, record_of
from lynxbench.server.ledger_views import PagePast, executor_ids


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
