"""A bundle may leave profiler traces out, with a signed word; without one, or of any other file, it is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.statement import seal_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.archive import read_archive, write_archive
from lynxbench.ledger.bundle import MANIFEST, export_bundle, import_bundle, read_bundle
from lynxbench.ledger.left_out_traces import traces_of
from lynxbench.ledger.queries import find_result
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Entry, EntryKind, TracesLeftOut
from teams import Team, make_team, trusts

PUBLISHED = Path(__file__).parents[3] / "results" / "h200"
BUNDLE = PUBLISHED / "bundles" / "embedding-gpu.bundle"
Members = dict[str, bytes]


@pytest.fixture
def alpha(tmp_path: Path) -> Team:
    """A team that holds a published result with its traces."""
    team = make_team("alpha", tmp_path / "alpha")
    for card in sorted((PUBLISHED / "keys").iterdir()):
        assert team.run("key", "trust", str(card)).code == 0
    assert team.run("results", "import", str(BUNDLE)).code == 0
    return team


@pytest.fixture
def light(alpha: Team, tmp_path: Path) -> Path:
    """Its bundle without traces."""
    path = tmp_path / "light.lynx"
    done = alpha.run("results", "export", "last", "--without-traces", "-o", str(path))
    assert done.code == 0, done.err
    assert "traces were left out: figures can be verified, where the time went cannot" in done.out
    return path


def reader(name: str, tmp_path: Path, alpha: Team) -> Team:
    team = make_team(name, tmp_path / name)
    for card in sorted((PUBLISHED / "keys").iterdir()):
        team.run("key", "trust", str(card))
    trusts(team, alpha)
    return team


def members_of(path: Path) -> Members:
    with path.open("rb") as stream:
        return dict(read_archive(stream, str(path)))


def rewrite(path: Path, members: Members, change: Callable[[dict], None] = lambda manifest: None) -> Path:  # type: ignore[type-arg]
    """A bundle of these members whose own manifest fits them: what an attacker on the way can make of it."""
    manifest = json.loads(members.pop(MANIFEST))
    manifest["members"] = [
        {"name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    ]
    change(manifest)
    write_archive(path, [(MANIFEST, canonical_bytes(manifest)), *members.items()])
    return path


def test_documents_under_each_others_names_are_refused_though_the_manifest_fits_them(tmp_path: Path) -> None:
    """They are kept under the names they bear: a name is held against its bytes before anything else is looked at."""
    members = members_of(BUNDLE)
    first, second = [name for name in members if name.startswith("blobs/")][:2]
    members[first], members[second] = members[second], members[first]
    with pytest.raises(EvidenceInvalid, match=r"document [0-9a-f]+ is not what its name says"):
        read_bundle(rewrite(tmp_path / "swapped.lynx", members), TrustList())


def test_without_traces_figures_are_verified_and_the_attribution_is_said_not_to_be(
    alpha: Team, light: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.lynx"
    assert alpha.run("results", "export", "last", "-o", str(whole)).code == 0
    bravo = reader("bravo", tmp_path, alpha)
    assert bravo.ask("results", "import", str(light))["left_out"] > 0
    for named in (str(light), "last"):  # the file, and the ledger that took it in
        done = bravo.run("verify", named, "--json")
        told = json.loads(done.out)
        (report,) = told.get("results", [told])
        unsure = {check["name"]: check["why"] for check in report["checks"] if check["outcome"] != "holds"}
        assert done.code == 0, done.out
        assert report["verdict"] == "holds"
        attributions = [name for name in unsure if name.endswith(" attribution")]
        assert attributions
        assert all("left out of a bundle on" in unsure[name] for name in attributions)
        assert not [name for name in unsure if "throughput" in name or name == "figures"]
    assert "where the time went is not verified" in bravo.run("verify", "last").out
    # what came without traces goes on without them, by the same word, with no option
    onwards = tmp_path / "onwards.lynx"
    assert bravo.run("results", "export", "last", "-o", str(onwards)).code == 0
    charlie = reader("charlie", tmp_path, alpha)
    trusts(charlie, bravo)
    assert charlie.ask("results", "import", str(onwards))["left_out"] > 0
    # and whoever gets the whole bundle later has everything
    assert charlie.ask("results", "import", str(whole))["left_out"] == 0
    report = charlie.ask("verify", "last")
    assert not [check for check in report["checks"] if check["name"].startswith("trace ")]


def test_the_exporter_says_it_once_and_a_whole_bundle_is_written_as_ever(
    alpha: Team, light: Path, tmp_path: Path
) -> None:
    assert alpha.run("results", "export", "last", "--without-traces", "-o", str(tmp_path / "again.lynx")).code == 0
    with alpha.open() as ledger:
        kinds = [ledger.log.read(seq).entry.body.kind for seq in range(ledger.log.head().size)]
    assert kinds.count(EntryKind.LEFT_OUT) == 1
    whole = tmp_path / "whole.lynx"
    assert alpha.run("results", "export", "last", "-o", str(whole)).code == 0
    assert "left_out" not in json.loads(members_of(whole)[MANIFEST])
    assert json.loads(members_of(light)[MANIFEST])["left_out"]
    assert light.stat().st_size < whole.stat().st_size
    assert alpha.run("verify", "last").out.count("trace ") == 0


def test_a_trace_that_is_missing_without_a_word_is_refused(alpha: Team, light: Path, tmp_path: Path) -> None:
    trace = json.loads(members_of(light)[MANIFEST])["left_out"][0]
    whole = members_of(BUNDLE)
    del whole[f"blobs/{trace}"]
    silent = rewrite(tmp_path / "silent.lynx", dict(whole))
    listed = rewrite(
        tmp_path / "listed.lynx", dict(whole), lambda manifest: manifest.update(left_out=[trace])
    )  # the file says so, and nobody signed that
    for path in (silent, listed):
        for done in (alpha.run("verify", str(path)), alpha.run("results", "import", str(path))):
            assert done.code == 5, done.out
            assert f"document {trace[:12]} is missing" in done.err


def test_what_the_file_lists_and_what_is_missing_are_the_same(alpha: Team, light: Path, tmp_path: Path) -> None:
    trust = alpha.keyring.trust
    members = members_of(light)
    left_out = json.loads(members[MANIFEST])["left_out"]
    unsaid = rewrite(tmp_path / "unsaid.lynx", dict(members), lambda manifest: manifest.pop("left_out"))
    with pytest.raises(EvidenceInvalid, match="left out and not listed as such"):
        read_bundle(unsaid, trust)
    more = {**members, f"blobs/{left_out[0]}": members_of(BUNDLE)[f"blobs/{left_out[0]}"]}
    with pytest.raises(EvidenceInvalid, match="or the other way round"):
        read_bundle(rewrite(tmp_path / "more.lynx", more), trust)


@pytest.mark.parametrize("name", ["samples.npz", "registration.json", "manifest.json", "result.json", "report.json"])
def test_a_signed_word_leaves_out_nothing_but_traces(alpha: Team, tmp_path: Path, name: str) -> None:
    """The exporter itself lies: it signs that it left out what the figures rest on."""
    with alpha.open() as ledger:
        result_id = alpha.ask("results", "list")["results"][0]["result_id"]
        recorded = find_result(ledger.log, result_id)
        assert recorded is not None
        sha256 = next(blob.sha256 for blob in recorded.entry.blobs if blob.name.endswith(name))
        word = TracesLeftOut(result_id=result_id, traces=(sha256,))
        key, now = alpha.keyring.keys.open("alpha"), datetime.now(UTC)
        ledger.log.append(seal_entry(Entry(made_at=now.isoformat(timespec="milliseconds"), body=word), [key]))
        path = tmp_path / "whole.lynx"
        done = export_bundle(ledger, [result_id], path, key, alpha.keyring.trust, now, without_traces=True)
    assert sha256 not in json.loads(members_of(path)[MANIFEST])["left_out"]
    assert done.left_out > 0
    members = members_of(path)
    del members[f"blobs/{sha256}"]

    def say(manifest: dict) -> None:  # type: ignore[type-arg]
        manifest["left_out"] = sorted([*manifest["left_out"], sha256])

    forged = rewrite(tmp_path / "forged.lynx", members, say)
    bravo = reader("bravo", tmp_path, alpha)
    with bravo.open() as ledger, pytest.raises(EvidenceInvalid, match=r"is no trace|is missing"):
        import_bundle(ledger, forged, bravo.keyring.trust)


def test_other_formats_never_hold_traces(alpha: Team) -> None:
    done = alpha.run("results", "export", "last", "--without-traces", "--format", "csv", "-o", "out.csv")
    assert done.code == 2
    assert "never holds traces" in done.err


def test_traces_are_known_by_the_report_of_their_process_alone() -> None:
    reports = {
        "good": b'{"trace": "trace.columns"}', "none": b'{"trace": null}', "odd": b"\xff", "list": b"[]",
        "itself": b'{"trace": "report.json"}', "out": b'{"trace": "../../samples.npz"}',
    }  # fmt: skip
    files = {"samples.npz": "s", "trace.columns": "t", "elsewhere/000/report.json": "good"}
    for name in reports:
        files |= {f"attempts/{name}/report.json": name, f"attempts/{name}/trace.columns": f"{name}-trace"}
    assert traces_of(files, lambda sha256: reports[sha256]) == {"attempts/good/trace.columns": "good-trace"}
