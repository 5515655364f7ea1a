"""Results between ledgers and to other programs: bundles moved and attacked, formats written, foreign results in."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import random
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from lynxbench.errors import LynxbenchError
from lynxbench.ledger.bundle import import_bundle, read_bundle
from lynxbench.ledger.log_audit import recompute
from teams import Team, make_team, recorded_run, trusts

FLIPS = 10_000
FOREIGN = Path(__file__).parents[1] / "data" / "foreign"


@pytest.fixture(scope="module")
def alpha(tmp_path_factory: pytest.TempPathFactory, spin_run: Path) -> Team:
    """The team that measured; the run is recorded from its folder."""
    return recorded_run("alpha", tmp_path_factory.mktemp("alpha"), spin_run, tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="module")
def result_id(alpha: Team) -> str:
    found: str = alpha.ask("results", "list")["results"][0]["result_id"]
    return found


@pytest.fixture(scope="module")
def bundle(alpha: Team, result_id: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "results.lynx"
    done = alpha.run("results", "export", result_id[:10], "-o", str(path))
    assert done.code == 0, done.err
    return path


# --- bundles ----------------------------------------------------------------------------------------------------------


def test_a_bundle_moves_a_result_with_everything_said_about_it(
    alpha: Team, bundle: Path, result_id: str, tmp_path: Path
) -> None:
    bravo = make_team("bravo", tmp_path / "bravo")
    refused = bravo.run("results", "import", str(bundle))
    assert refused.code == 5
    assert "no trusted signature" in refused.err
    trusts(bravo, alpha)
    assert bravo.ask("results", "import", str(bundle))["new"] == 2
    assert bravo.ask("results", "import", str(bundle))["new"] == 0
    done = bravo.run("contest", result_id[:12], "--reason", "the client shared a core with the server")
    assert done.code == 0, done.err
    refused = bravo.run("retract", result_id[:12], "--reason", "not ours")
    assert refused.code == 3
    assert "only its own team retracts" in refused.err
    back = tmp_path / "back.lynx"
    assert bravo.run("results", "export", result_id, "-o", str(back)).code == 0
    third = make_team("charlie", tmp_path / "charlie")
    trusts(third, alpha)
    trusts(third, bravo)
    assert third.ask("results", "import", str(back))["teams"] == ["alpha", "bravo"]
    (one,) = third.ask("results", "list")["results"]
    assert one["standing"]["summary"] == "contested"
    assert one["standing"]["contested"][0]["by"] == "bravo"
    assert "contested by bravo: the client shared a core" in third.run("results", "show", result_id[:12]).out


def test_only_the_own_team_retracts(spin_run: Path, tmp_path: Path) -> None:
    team = make_team("alpha", tmp_path / "home")
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    result = team.ask("results", "import", str(folder), "--own")["results"][0]
    assert team.run("retract", result[:12], "--reason", "the fan was broken").code == 0
    shown = team.run("results", "list")
    assert "retracted" in shown.out
    assert "retracted by alpha: the fan was broken" in team.run("results", "show", result[:12]).out


def test_ten_thousand_flipped_bits_are_all_found(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    data, trust = bytearray(bundle.read_bytes()), alpha.keyring.trust
    assert read_bundle(bundle, trust).manifest.results
    bent = tmp_path / "bent.lynx"
    bent.write_bytes(data)
    chance, missed = random.Random(8785), []
    with bent.open("r+b", buffering=0) as stream:
        for _ in range(FLIPS):
            bit = chance.randrange(len(data) * 8)
            place, was = bit // 8, data[bit // 8]
            os.pwrite(stream.fileno(), bytes([was ^ 1 << bit % 8]), place)
            try:
                read_bundle(bent, trust)
                missed.append(bit)
            except LynxbenchError:  # anything else is a crash, and fails this test
                pass
            os.pwrite(stream.fileno(), bytes([was]), place)
    assert missed == []
    assert read_bundle(bent, trust).manifest.results


@pytest.mark.parametrize("keep", [0, 1, 511, 512, 5000, -512, -1024, -1])
def test_a_truncated_bundle_is_refused(alpha: Team, bundle: Path, tmp_path: Path, keep: int) -> None:
    data = bundle.read_bytes()
    (tmp_path / "cut.lynx").write_bytes(data[:keep])
    _refused(alpha, tmp_path / "cut.lynx")


def _refused(team: Team, path: Path) -> str:
    with team.open() as ledger, contextlib.ExitStack() as stack:
        error = stack.enter_context(pytest.raises(LynxbenchError))
        import_bundle(ledger, path, team.keyring.trust)
    assert error.value.exit_code in (2, 5)
    assert "\n" not in str(error.value)
    return str(error.value)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], after: bytes = b"") -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for facts, content in members:
            facts.size = facts.size or len(content)
            archive.addfile(facts, io.BytesIO(content))
    if after:
        path.write_bytes(path.read_bytes() + after)
    return path


def _info(name: str, **facts: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in facts.items():
        setattr(info, key, value)
    return info


def test_hostile_archives_are_refused(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    link = _info("blobs/" + "a" * 64, type=tarfile.SYMTYPE, linkname="/etc/passwd")
    _refused(alpha, _tar(tmp_path / "link.lynx", (link, b"")))
    for number, name in enumerate(("../../etc/passwd", "/etc/passwd", "entries/../manifest.json", "MANIFEST.JSON")):
        _refused(alpha, _tar(tmp_path / f"path{number}.lynx", (_info(name), b"{}")))
    bomb = tmp_path / "bomb.lynx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(20_000_000))
    assert "not a bundle" in _refused(alpha, bomb)
    huge = _info("manifest.json", size=7 << 30)
    huge_header = huge.tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "huge.lynx").write_bytes(huge_header + bytes(2048))
    assert "more than the file holds" in _refused(alpha, tmp_path / "huge.lynx")
    data = bundle.read_bytes()
    (tmp_path / "more.lynx").write_bytes(data + b"hidden")
    _refused(alpha, tmp_path / "more.lynx")
    doubled = data[:-1024] + data[: 512 + (-(-_first_size(data) // 512)) * 512] + data[-1024:]
    (tmp_path / "double.lynx").write_bytes(doubled)
    assert "twice" in _refused(alpha, tmp_path / "double.lynx")
    (tmp_path / "empty.lynx").write_bytes(b"")
    _refused(alpha, tmp_path / "empty.lynx")


def _first_size(data: bytes) -> int:
    return tarfile.TarInfo.frombuf(data[:512], "utf-8", "strict").size


def test_an_entry_left_out_of_a_bundle_is_noticed_by_its_proofs(alpha: Team, bundle: Path, tmp_path: Path) -> None:
    members = []
    with tarfile.open(bundle) as archive:
        for info in archive:
            stream = archive.extractfile(info)
            assert stream is not None
            members.append((info.name, stream.read()))
    kept = [(_info(name), data) for name, data in members if not name.startswith("entries/0000000000")]
    assert len(kept) == len(members) - 1
    _refused(alpha, _tar(tmp_path / "less.lynx", *kept))


# --- other programs ---------------------------------------------------------------------------------------------------


def test_results_are_written_for_other_programs_with_context_and_standing(
    alpha: Team, result_id: str, tmp_path: Path
) -> None:
    table = tmp_path / "results.csv"
    said = alpha.ask("results", "export", result_id[:8], "--format", "csv", "-o", str(table))
    assert (said["rows"], said["results"], said["format"]) == (1, [result_id], "csv")
    (row,) = csv.DictReader(io.StringIO(table.read_text()))
    assert row["result_id"] == result_id
    assert row["standing"] == alpha.ask("results", "list")["results"][0]["standing"]["summary"]
    assert float(row["throughput"]) > 0
    metrics = tmp_path / "results.prom"
    assert alpha.run("results", "export", result_id, "--format", "openmetrics", "-o", str(metrics)).code == 0
    text = metrics.read_text()
    assert text.endswith("# EOF\n")
    assert re.search(rf'lynxbench_throughput_per_second\{{.*result_id="{result_id}",standing="[a-z ]+"', text)
    columns = tmp_path / "results.parquet"
    assert alpha.run("results", "export", result_id, "--format", "parquet", "-o", str(columns)).code == 0
    (found,) = read_table(columns).to_pylist()
    assert found["throughput"] == pytest.approx(float(row["throughput"]))


def test_results_are_logged_to_mlflow(alpha: Team, result_id: str, tmp_path: Path) -> None:
    from mlflow import tracking

    uri = (tmp_path / "mlruns").as_uri()
    words = ["results", "export", result_id, "--format", "mlflow", "-o", uri]
    done = alpha.run(*words, MLFLOW_ALLOW_FILE_STORE="true")
    assert done.code == 0, done.err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = tracking.MlflowClient(tracking_uri=uri)
        experiment = client.get_experiment_by_name("lynxbench")
        (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.tags["lynxbench.result_id"] == result_id
    assert run.data.params["standing"]
    refused = alpha.run("results", "export", result_id, "--format", "mlflow", "-o", "nonsense://x")
    assert refused.code == 2, refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("target", ["no/such/folder/x.csv", "."])
def test_what_cannot_be_written_is_said(alpha: Team, result_id: str, target: str) -> None:
    done = alpha.run("results", "export", result_id, "--format", "csv", "-o", target)
    assert done.code == 2
    assert "cannot be written" in done.err
    wrong = alpha.run("results", "export", result_id, "--format", "xml", "-o", "x")
    assert wrong.code == 2
    assert "'xml' is not one of 'bundle', 'openmetrics', 'csv', 'parquet', 'mlflow'" in wrong.err


def test_a_foreign_result_is_recorded_with_what_it_fails_to_state(tmp_path: Path) -> None:
    team = make_team("alpha", tmp_path / "home")
    said = team.ask("results", "import", str(FOREIGN / "vllm.json"))
    assert said["new"] == 1
    assert "a steady-state verdict" in said["not_stated"]
    assert team.ask("results", "import", str(FOREIGN / "vllm.json"))["new"] == 0, "the same file again changes nothing"
    assert team.ask("results", "import", str(FOREIGN / "mlperf.txt"))["new"] == 1
    shown = team.run("results", "import", str(FOREIGN / "guidellm.json"), "--tool", "guidellm")
    assert "foreign result, recorded as entry 2" in shown.out
    assert "not stated: a contract agreed before the run" in shown.out
    listed = team.ask("results", "foreign")["foreign"]
    assert [one["body"]["tool"] for one in listed] == ["guidellm", "mlperf", "vllm"]
    assert {one["by"] for one in listed} == {"alpha"}
    with team.open() as ledger:
        kept = ledger.blobs.get(said["file_sha256"])
        assert recompute(ledger.log).size == 3
    assert kept == (FOREIGN / "vllm.json").read_bytes()
    assert "vllm.json" in team.run("results", "foreign").out
    assert team.ask("results", "list")["results"] == [], "never beside ours"


@pytest.mark.parametrize("content", [b'{"a": 1}', b"plain words", b"", b"\xff\xfe", b'{"a": '])
def test_an_unknown_file_is_refused_in_one_line(alpha: Team, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    done = alpha.run("results", "import", str(tmp_path / "odd"))
    assert done.code in (2, 5)
    assert done.err.count("\n") == 1
    assert alpha.run("results", "import", str(tmp_path / "none")).code == 2
