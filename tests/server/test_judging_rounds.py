"""New results are judged several at a time, and none of them stands in the way of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hosted import World, make_world
from lynxbench.errors import BadLedger
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.ledger_tables import entries
from lynxbench.ledger.log import Logged
from lynxbench.model.entries import EntryKind
from lynxbench.watch.judging_round import JudgingRound


def recorded(world: World) -> list[Logged]:
    """Entries of results in a server's ledger."""
    return world.server.ledger.log.read_where(entries.c.kind == EntryKind.RESULT.value)


def test_one_entry_that_cannot_be_read_keeps_no_other_from_being_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are judged in a round; where one spoils it, each is looked at by itself."""
    world = make_world(tmp_path / "own", shapes=(), decisions=False)
    try:
        server, seqs = world.server, [logged.seq for logged in recorded(world)]
        assert len(seqs) > 2
        bad, judged, real = seqs[1], [], server.watch.round_of

        def round_of(some: Sequence[int], trust: TrustList) -> JudgingRound:
            if bad in some:
                raise BadLedger("cannot be read")
            return real(some, trust)

        monkeypatch.setattr(server.watch, "pending", lambda: seqs)
        monkeypatch.setattr(server.watch, "round_of", round_of)
        monkeypatch.setattr(server.watch, "judge_among", lambda among, logged, place: judged.append(logged.seq))
        server.look()
        assert judged == [seq for seq in seqs if seq != bad]
    finally:
        world.server.stop()
