"""Documents read for views over many results: the same values, no other document, no damaged one."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hosted import World, make_world
from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import find_result
from lynxbench.record.recalling import document_of, recalled, sealed_document


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


def test_a_bundle_in_place_of_a_result_is_told_what_to_do_with_it(tmp_path: Path) -> None:
    bundle = tmp_path / "theirs.lynx"
    with tarfile.open(bundle, "w") as archive:
        archive.addfile(tarfile.TarInfo("manifest.json"))
    with pytest.raises(BadInput, match="a bundle; take it in"), recalled(str(bundle), None, {}):
        pass


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
