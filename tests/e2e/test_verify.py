"""`lynxbench verify` and `key` through the real command line: what holds, what does not, and the exit codes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import QUICK_CONTRACT, SPINNING, lynxbench_here
from lynxbench.cli.main import app
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.sample_file import read_samples, write_samples
from lynxbench.evidence.statement import seal_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import ModelFigures
from lynxbench.model.result import Result
from lynxbench.model.verification import CheckOutcome, EvidenceVerdict
from lynxbench.record.signature_check import check_envelope
from lynxbench.record.verifying import verify_folder
from sealed import contest, key_of
from served import served_contract

DYING = (
    SPINNING
    + """
import json, os, sys
from pathlib import Path

if json.loads((Path(sys.argv[1]) / "job.json").read_text())["restart"] == 1:
    print("killed by the planted death", file=sys.stderr, flush=True)
    os._exit(9)
"""
)
"""The second process dies while it loads the workload."""


@pytest.fixture
def run_copy(spin_run: Path, tmp_path: Path) -> Path:
    """A finished run that a test may spoil."""
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)  # an attacker leaves out what would give him away
    return folder


def failing(folder: Path) -> dict[str, str]:
    return {one.name: one.why for one in verify_folder(folder).checks if one.outcome.value == "does not hold"}


def forge(folder: Path, change: Callable[[Result], Result]) -> None:
    """Change a result, and everything that could give it away without the raw samples: its id, the manifest."""
    result = Result.model_validate_json((folder / "result.json").read_bytes())
    write_result(folder / "result.json", change(result).sealed())
    write_manifest(folder)


def test_an_honest_run_holds_in_every_line(spin_run: Path) -> None:
    report = verify_folder(spin_run)
    assert report.holds, [check.line for check in report.checks]
    names = {check.name for check in report.checks if check.outcome.value == "holds"}
    assert names >= {"manifest", "result id", "attempts", "samples and phases", "fp32 throughput", "fp32 validity",
                     "fp32 latency percentiles", "fp32 steady state", "executor", "validity"}  # fmt: skip


def test_the_command_says_so_and_exits_0(spin_run: Path) -> None:
    done = lynxbench_here("verify", str(spin_run), "--ledger", "none", cwd=spin_run)
    assert done.code == 0, done.out + done.err
    assert " holds: " in done.out
    document = json.loads(lynxbench_here("verify", str(spin_run), "--json", "--ledger", "none", cwd=spin_run).out)
    assert document["holds"] is True
    assert document["counts"]["does not hold"] == 0


def test_the_document_alone_names_its_folder(spin_run: Path) -> None:
    assert verify_folder(spin_run / "result.json").holds


def test_a_folder_without_attempts_is_looked_at_as_far_as_it_goes_and_not_called_verified(run_copy: Path) -> None:
    shutil.rmtree(run_copy / "attempts")
    (run_copy / "manifest.json").unlink()
    report = verify_folder(run_copy)
    assert report.verdict is EvidenceVerdict.CANNOT
    lines = {check.name: check.outcome.value for check in report.checks}
    assert lines["fp32 throughput"] == lines["fp32 steady state"] == lines["samples and phases"] == "holds"
    assert lines["attempts"] == lines["validity"] == "cannot be recomputed"


# --- lies that a hash alone does not show ----------------------------------------------------------------------------


def _faster(result: Result) -> Result:
    (one,) = result.per_precision
    assert one.throughput is not None
    assert one.throughput.estimate is not None
    figure = one.throughput.model_copy(update={"estimate": one.throughput.estimate * 1.001})
    return result.model_copy(update={"per_precision": (one.model_copy(update={"throughput": figure}),)})


def _part(name: str, value: object) -> Callable[[Result], Result]:
    def change(result: Result) -> Result:
        (one,) = result.per_precision
        return result.model_copy(update={"per_precision": (one.model_copy(update={name: value}),)})

    return change


def _valid(result: Result) -> Result:
    changed = result.validity.model_copy(update={"reasons": ("everything is fine",)})
    return result.model_copy(update={"validity": changed})


def _steadier(result: Result) -> Result:
    (one,) = result.per_precision
    assert one.steady is not None
    steady = one.steady.model_copy(update={"counted_iterations": one.steady.counted_iterations + 1})
    return _part("steady", steady)(result)


LIES = {
    "throughput by a thousandth": (_faster, "fp32 throughput"),
    "restarts": (_part("restarts", 5), "fp32 restarts"),
    "run means": (_part("run_means", (1.0, 2.0)), "fp32 run means"),
    "latency left out": (_part("latency_ms", {}), "fp32 latency percentiles"),
    "steady state": (_steadier, "fp32 steady state"),
    "memory": (_part("memory_bytes", 1), "fp32 memory"),
    "validity": (_valid, "validity"),
    "batch": (
        lambda r: r.model_copy(update={"conditions": r.conditions.model_copy(update={"batch": 64})}),
        "conditions",
    ),
    "another run's id": (
        lambda r: r.model_copy(update={"run_id": "spin-20200101T000000-abcdef"}),
        "registration run id",
    ),
    "another start": (lambda r: r.model_copy(update={"started_at": "2020-01-01T00:00:00+00:00"}), "registration time"),
    "executor": (
        lambda r: r.model_copy(update={"executor": r.executor.model_copy(update={"schema_version": 2})}),
        "executor",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_resealed_lie_is_found_in_its_own_line(lie: str, run_copy: Path) -> None:
    change, line = LIES[lie]
    forge(run_copy, change)
    found = failing(run_copy)
    assert line in found, found
    assert "result id" not in found, "the forger sealed it again"


def test_a_lie_is_shown_with_both_values_and_exit_5(run_copy: Path) -> None:
    forge(run_copy, _faster)
    done = lynxbench_here("verify", str(run_copy), "--ledger", "none", cwd=run_copy)
    assert done.code == 5, done.err
    assert "DOES NOT HOLD" in done.out.splitlines()[0]
    assert "fp32 throughput: does not hold: estimate: stated " in done.out
    assert ", recomputed " in done.out


def test_samples_that_no_process_recorded_are_found(run_copy: Path) -> None:
    """Faster samples, and a result computed from them in good order."""
    processes = read_samples(run_copy / "samples.npz")
    for one in processes:
        one.samples.iterations.end_ns[:] -= (one.samples.iterations.end_ns - one.samples.iterations.start_ns) // 10
    named = write_samples(run_copy / "samples.npz", processes)
    forge(run_copy, lambda result: result.model_copy(update={"samples": named}))
    assert "samples and phases" in failing(run_copy)


def test_an_omitted_attempt_is_found(run_copy: Path) -> None:
    """The slower process is left out of everything, and the rest put in order again."""
    shutil.rmtree(run_copy / "attempts" / "001-01")
    kept = tuple(one for one in read_samples(run_copy / "samples.npz") if one.samples.process == 0)
    named = write_samples(run_copy / "samples.npz", kept)
    forge(run_copy, lambda result: _part("restarts", 1)(result.model_copy(update={"samples": named})))
    assert "process 1 has no attempt" in failing(run_copy)["attempts"]


def test_a_first_attempt_thrown_away_for_a_better_one_is_found(run_copy: Path) -> None:
    (run_copy / "attempts" / "001-01").rename(run_copy / "attempts" / "001-02")
    write_manifest(run_copy)
    assert "is missing" in failing(run_copy)["attempts"]


def test_an_attempt_that_was_not_counted_is_found(run_copy: Path) -> None:
    kept = tuple(one for one in read_samples(run_copy / "samples.npz") if one.samples.process == 0)
    named = write_samples(run_copy / "samples.npz", kept)
    forge(run_copy, lambda result: result.model_copy(update={"samples": named}))
    assert "process 1 finished and is not in the samples" in failing(run_copy)["attempts counted"]


def test_an_attempt_of_no_plan_is_found(run_copy: Path) -> None:
    shutil.copytree(run_copy / "attempts" / "001-01", run_copy / "attempts" / "007-01")
    write_manifest(run_copy)
    assert "007-01" in failing(run_copy)["attempts"]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_in_the_folder_is_refused(what: str, run_copy: Path, tmp_path: Path) -> None:
    if what == "file":
        (run_copy / "telemetry.csv").rename(tmp_path / "elsewhere.csv")
        (run_copy / "telemetry.csv").symlink_to(tmp_path / "elsewhere.csv")
    else:
        (run_copy / "attempts").rename(tmp_path / "elsewhere")
        (run_copy / "attempts").symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in failing(run_copy)["folder"]


@pytest.mark.parametrize("spelling", ["1e999", "NaN", '"twice"', "deep", "999999999999999999999999"])
def test_numbers_that_readers_disagree_on_are_refused(spelling: str, run_copy: Path) -> None:
    """`1e999` reads as infinity, which canonical bytes write as null: the id would still fit."""
    file = run_copy / "result.json"
    text = file.read_text()
    assert '"low": null' in text
    put = {"deep": "[" * 5000 + "]" * 5000}.get(spelling, spelling)
    changed = '"low": 1, "low": null' if spelling == '"twice"' else f'"low": {put}'
    file.write_text(text.replace('"low": null', changed, 1))
    write_manifest(run_copy)
    assert "result document" in failing(run_copy)


def test_nothing_to_verify_is_bad_input(tmp_path: Path) -> None:
    done = lynxbench_here("verify", str(tmp_path), "--ledger", "none", cwd=tmp_path)
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


# --- signatures and the ledger ---------------------------------------------------------------------------------------


def signature_lines(folder: Path, trust: TrustList | None = None) -> dict[str, str]:
    return {line.name: line.outcome.value for line in check_envelope(folder, trust or Keyring().trust)}


def test_the_signed_entry_beside_a_result_is_checked(spin_run: Path) -> None:
    assert signature_lines(spin_run) == {"signature": "holds", "signed files": "holds", "signed result": "holds"}
    assert signature_lines(spin_run, TrustList())["signature"] == "does not hold", "nobody is trusted"


def test_a_resealed_result_under_the_old_signature_is_found(spin_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(spin_run, folder)
    forge(folder, _faster)
    lines = signature_lines(folder)
    assert lines["signature"] == "holds", "the entry itself is untouched"
    assert lines["signed files"] == lines["signed result"] == "does not hold"


def test_an_entry_of_another_result_is_no_signature(spin_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(spin_run, folder)
    (folder / "entry.dsse.json").write_bytes(seal_entry(contest(), [key_of()]).to_bytes())
    assert signature_lines(folder)["signed entry"] == "does not hold"


def test_a_result_is_verified_out_of_the_ledger_and_that_is_recorded(spin_run: Path) -> None:
    result_id = read_result(spin_run).result_id
    done = CliRunner().invoke(app, ["verify", result_id[:12], "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    held = {one["name"] for one in document["checks"] if one["outcome"] == "holds"}
    assert document["signed"] is True
    assert held >= {"log inclusion", "signatures", "registration", "fp32 throughput", "signed files"}
    recorded = CliRunner().invoke(app, ["verify", str(spin_run), "--record"])
    assert recorded.exit_code == 0, recorded.output
    assert "recorded as entry" in recorded.stdout


def test_a_death_is_recomputed_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "spin.yaml").write_text(QUICK_CONTRACT)
    (tmp_path / "spinning.py").write_text(DYING)
    done = lynxbench_here("run", "spin.yaml", "--ledger", "none", cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code in (0, 1), done.err
    (folder,) = (tmp_path / "results").iterdir()
    report = verify_folder(folder)
    assert report.holds, failing(folder)
    assert {"validity", "fp32 validity"} <= {check.name for check in report.checks if check.outcome.value == "holds"}
    (folder / "attempts" / "001-01" / "death.txt").unlink()  # as an earlier lynxbench left it
    write_manifest(folder)
    report = verify_folder(folder)
    assert report.holds, failing(folder)
    assert {"validity", "fp32 validity"} <= {
        check.name for check in report.checks if check.outcome is CheckOutcome.CANNOT
    }


# --- a served run ----------------------------------------------------------------------------------------------------


def test_a_served_run_is_recomputed_from_its_requests(tmp_path: Path) -> None:
    home = {"LYNXBENCH_HOME": str(tmp_path / "home")}
    with running_server(Behaviour(ttft_ms=5, itl_ms=1)) as server:
        contract = served_contract(server.url).replace("processes: 1", "processes: 2")
        (tmp_path / "served.yaml").write_text(contract, encoding="utf-8")
        done = lynxbench_here("run", "served.yaml", "--ledger", "none", cwd=tmp_path, **home)
    assert done.code in (0, 1), done.err
    (folder,) = (tmp_path / "results").iterdir()
    report = verify_folder(folder)
    assert report.holds, [check.line for check in report.checks if check.outcome.value != "holds"]
    held = {check.name for check in report.checks if check.outcome.value == "holds"}
    assert held >= {"fp32 accounting", "fp32 requests", "fp32 goodput", "fp32 instrument", "fp32 throughput"}
    _register_as_before(folder)
    assert verify_folder(folder).holds, failing(folder)
    honest = read_result(folder)
    forge(folder, _better_machine)
    lines = failing(folder)
    assert lines["executor"].startswith("accelerator.cpu_model: stated 'EPYC 9965', registered "), lines
    forge(folder, lambda _: _served_lie(honest))
    assert "fp32 accounting" in failing(folder)
    forge(folder, lambda _: _models_lie(honest))
    assert list(failing(folder)) == ["fp32 models"]


def _models_lie(result: Result) -> Result:
    """Figures of a kind that this contract gives none of."""
    (one,) = result.per_precision
    assert one.load is not None
    counts = {"offered": 9, "ok": 9, "cancelled": 0, "output_tokens_per_s": 9e9}
    model = ModelFigures(name="mine", share=1.0, first_token_ms=(1.0, 1.0), latency_ms=(1.0, 1.0), **counts)
    return _part("load", one.load.model_copy(update={"models": (model,)}))(result)


def _better_machine(result: Result) -> Result:
    """A client of a server states what nobody can read again: another processor than the run was announced on."""
    layer = result.executor.layers[Layer.ACCELERATOR]
    named = {"cpu_model": layer["cpu_model"].model_copy(update={"value": "EPYC 9965"})}
    executor = result.executor.merged({Layer.ACCELERATOR: named})
    ids = {"executor_id": executor.executor_id, "instance_id": executor.instance_id}
    return result.model_copy(update={"executor": executor, **ids})


def _register_as_before(folder: Path) -> None:
    """The registration as an earlier lynxbench wrote it: the number of clients stood as `threads`."""
    registration = json.loads((folder / "registration.json").read_text(encoding="utf-8"))
    assert registration["clients"] == 2
    registration["threads"] = registration.pop("clients")
    (folder / "registration.json").write_text(json.dumps(registration), encoding="utf-8")
    write_manifest(folder)


def _served_lie(result: Result) -> Result:
    (one,) = result.per_precision
    assert one.load is not None
    counted = one.load.accounting.model_copy(update={"ok": one.load.accounting.ok + 1})
    return _part("load", one.load.model_copy(update={"accounting": counted}))(result)


def test_read_result_still_holds_the_ids(spin_run: Path) -> None:
    assert read_result(spin_run).result_id == verify_folder(spin_run).result_id
