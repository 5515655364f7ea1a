"""Documents read for views over many results: the same values, no other document, no damaged one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hosted import World, make_world
from lynxbench.errors import EvidenceInvalid
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import find_result
from lynxbench.record.recalling import document_of, sealed_document


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("recalled"), decisions=False)


def recorded(world: World, number: int) -> Logged:
    found = find_result(world.server.ledger.log, world.results[number].result_id)
    assert found is not None
    return found


def test_a_sealed_document_is_the_checked_one(world: World) -> None:
    ledger = world.server.ledger
    for number in (0, 7):
        assert sealed_document(ledger, recorded(world, number)) == document_of(ledger, recorded(world, number))


def test_an_entry_that_names_anothers_document_is_refused(world: World) -> None:
    ledger, mine, other = world.server.ledger, recorded(world, 1), recorded(world, 2)
    mixed = replace(mine, entry=mine.entry.model_copy(update={"blobs": other.entry.blobs}))
    with pytest.raises(EvidenceInvalid, match="its entry names the document of"):
        sealed_document(ledger, mixed)


def test_bytes_that_were_changed_are_refused_before_they_are_read(world: World) -> None:
    ledger, one = world.server.ledger, recorded(world, 3)
    name = next(blob.sha256 for blob in one.entry.blobs if blob.name == "result.json")
    home = Path(str(ledger.log.database.url.database)).parent
    (file,) = (path for path in home.rglob(name[2:]) if path.parent.name == name[:2])
    file.chmod(0o644)
    file.write_bytes(file.read_bytes().replace(b'"valid"', b'"VALID"', 1))
    with pytest.raises(EvidenceInvalid):
        sealed_document(ledger, one)
