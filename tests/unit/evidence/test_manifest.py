"""Every file of a run by its hash; links and ways out of the folder are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.manifest import differences, parse_manifest, read_manifest, take_manifest, write_manifest
from lynxbench.model.canonical import canonical_bytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "attempts" / "000-01").mkdir(parents=True)
    (tmp_path / "attempts" / "000-01" / "report.json").write_text("{}")
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "report.html").write_text("drawn")
    (tmp_path / ".result.json.12.part").write_text("torn")
    return tmp_path


def test_evidence_is_listed_and_what_is_drawn_from_it_is_not(folder: Path) -> None:
    manifest = write_manifest(folder)
    assert [file.path for file in manifest.files] == ["attempts/000-01/report.json", "result.json"]
    assert read_manifest(folder) == manifest
    assert differences(folder, manifest) == ()


def test_missing_changed_and_added_files_are_told(folder: Path) -> None:
    manifest = write_manifest(folder)
    (folder / "result.json").write_text("[]")
    (folder / "attempts" / "000-01" / "report.json").unlink()
    (folder / "attempts" / "added.json").write_text("")
    (folder / "report.html").write_text("drawn again")
    assert [one.path for one in differences(folder, manifest)] == [
        "attempts/000-01/report.json",
        "result.json",
        "attempts/added.json",
    ]


@pytest.mark.parametrize("make", ["file", "folder", "dangling", "pipe"])
def test_links_and_pipes_are_no_evidence(make: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("secret")
    place = folder / "attempts" / "placed"
    if make == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to({"file": outside / "secret", "folder": outside, "dangling": outside / "none"}[make])
    with pytest.raises(EvidenceInvalid, match="attempts/placed"):
        take_manifest(folder)


@pytest.mark.parametrize(
    "path", ["../out", "/etc/passwd", "a/../../b", "a//b", ".hidden", "a/.hidden", "", "a\\b", "a\nb"]
)
def test_a_path_out_of_the_folder_is_refused(path: str) -> None:
    file = {"path": path, "sha256": "ab" * 32, "size_bytes": 1}
    with pytest.raises(EvidenceInvalid, match="path"):
        parse_manifest(canonical_bytes({"files": [file], "schema_version": 1}))


def test_a_path_is_listed_once(folder: Path) -> None:
    file = {"path": "a", "sha256": "ab" * 32, "size_bytes": 1}
    with pytest.raises(EvidenceInvalid, match="twice"):
        parse_manifest(canonical_bytes({"files": [file, file], "schema_version": 1}))


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
