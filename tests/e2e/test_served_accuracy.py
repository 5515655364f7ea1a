"""Two formats of one planted model, run, held against each other, verified and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandRun, lynxbench_here
from lynxbench.decide.precision_choice import decide_formats
from lynxbench.errors import Refused
from lynxbench.evidence.documents import read_result
from lynxbench.model.precision import Precision
from lynxbench.model.serving import KvCacheFormat
from planted_model import WORDS, PlantedModel, planted_server
from served import served_contract

pytestmark = pytest.mark.usefixtures("one_preflight", "forked_clients")

ASKS = """\
policy:
  accuracy: {{metric: top1, largest_loss: 5 %}}
accuracy:
  greedy: {{prompts: 20, tokens: 6}}
  task: {{file: {task}, scorer: exact}}
  keep_text: {keep}
"""
QUESTION = "Which animal has tufted ears"


def write_contract(folder: Path, name: str, url: str, precision: str, keep: bool = False) -> str:
    text = served_contract(
        url,
        arrival="{process: closed, concurrency: 4}",
        restarts=1,
        shortest="500 ms",
        longest="600 ms",
        slo="",
        engine="stream: false\nendpoint: completions\ndialect: vllm",
    )
    text = text.replace("precisions: [fp32]", f"precisions: [{precision}]").replace("name: served", f"name: {name}", 1)
    text = text.replace("  slo: []", "  slo: []\n  mlperf: offline")
    file = folder / f"{name}.yaml"
    file.write_text(text + ASKS.format(task=folder / "task.jsonl", keep=str(keep).lower()))
    return str(file)


def ran(folder: Path, contract: str, *options: str) -> tuple[Path, dict[str, Any]]:
    out = folder / Path(contract).stem
    done = lynxbench_here("run", contract, "--out", str(out), "--ledger", "none", "--json", *options, cwd=folder)
    assert done.code == 0, done.err
    (run,) = out.iterdir()
    part: dict[str, Any] = json.loads(done.out)["per_precision"][0]
    return run, part


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folder, then run and figures of bf16, of fp8 against it, and of fp8 alone with texts kept."""
    folder = tmp_path_factory.mktemp("accuracy")
    rows = [{"prompt": f"{QUESTION} {number}?", "answer": "lynx" if number % 4 else "owl"} for number in range(12)]
    (folder / "task.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    replies = {QUESTION: "lynx"}
    with (
        planted_server(PlantedModel(noise=0.01, seed=1, replies=replies)) as wide,
        planted_server(PlantedModel(noise=0.01, error=1.5, seed=2, replies=replies)) as narrow,
    ):
        reference = ran(folder, write_contract(folder, "wide", wide, "bf16"))
        candidate = ran(
            folder, write_contract(folder, "narrow", narrow, "fp8", keep=True), "--reference", str(reference[0])
        )
    return folder, reference, candidate


def test_the_narrow_format_carries_its_accuracy_against_the_wide_one(pair: Any) -> None:
    _, (run, wide), (_, narrow) = pair
    result_id = json.loads((run / "result.json").read_text())["result_id"]
    assert (wide["accuracy"]["verdict"], wide["accuracy"]["is_reference"]) == ("reference", True)
    accuracy = narrow["accuracy"]
    assert (accuracy["reference"], accuracy["against"], accuracy["verdict"]) == ("bf16", result_id, "no-go")
    assert accuracy["metrics"]["token-agreement-high"] < accuracy["metrics"]["token-agreement-noise"]
    assert accuracy["metrics"]["task"] == wide["accuracy"]["metrics"]["task"] == 0.75
    assert accuracy["metrics"]["task-change"] == 0
    assert accuracy["metrics"]["task-change-low"] < 0 < accuracy["metrics"]["task-change-high"]


def test_both_verify_from_their_own_files(pair: Any) -> None:
    folder, (wide, _), (narrow, _) = pair
    for run in (wide, narrow):
        done = lynxbench_here("verify", str(run), "--json", "--ledger", "none", cwd=folder)
        wrong = [check for check in json.loads(done.out)["checks"] if check["outcome"] == "does not hold"]
        assert not wrong, wrong


def test_an_answer_that_was_changed_does_not_verify(pair: Any, tmp_path: Path) -> None:
    _, (wide, _), (narrow, _) = pair
    forged = tmp_path / "run"
    forged.mkdir()
    for file in narrow.rglob("*"):
        target = forged / file.relative_to(narrow)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            target.write_bytes(file.read_bytes())
    (forged / "answers.npz").write_bytes((wide / "answers.npz").read_bytes())
    (forged / "manifest.json").unlink()
    done = lynxbench_here("verify", str(forged), "--json", "--ledger", "none", cwd=tmp_path)
    wrong = [check["name"] for check in json.loads(done.out)["checks"] if check["outcome"] == "does not hold"]
    assert "fp8 accuracy" in wrong


def test_compare_states_agreement_and_no_ratio(pair: Any) -> None:
    folder, (wide, _), (narrow, figures) = pair
    done = lynxbench_here("compare", str(wide), str(narrow), "--json", "--ledger", "none", cwd=folder)
    assert done.code == 3
    document = json.loads(done.out)
    assert document["effect"] is None
    assert document["answers"]["metrics"] == figures["accuracy"]["metrics"]
    said = lynxbench_here("compare", str(wide), str(narrow), "--ledger", "none", cwd=folder).out
    assert "prompts agree whole" in said
    assert "INCOMPARABLE" in said.upper()


def test_no_text_is_kept_unless_it_is_asked_for(pair: Any) -> None:
    _, (wide, _), (narrow, _) = pair
    kept = [file for run in (wide, narrow) for file in run.rglob("*") if file.is_file() and file.suffix != ".html"]
    telling = {file.name for file in kept if QUESTION.encode() in file.read_bytes()}
    assert not telling  # questions are nowhere, even where answers are kept
    words = [word.encode() for word in WORDS[:10]]
    answers = [file for file in kept if sum(word in file.read_bytes() for word in words) > 2]
    assert {file.name for file in answers} == {"answers.jsonl"}
    assert {file.parent for file in answers} == {narrow}


def test_mlperf_figures_stand_beside_and_are_said_to_be_none_of_its(pair: Any) -> None:
    _, (run, wide), _ = pair
    figures = wide["load"]["mlperf"]
    assert (figures["form"], figures["metric"], figures["unit"]) == ("offline", "samples per second", "samples/s")
    assert figures["value"] == pytest.approx(wide["load"]["requests_per_s"]["estimate"])
    assert any("MLPerf asks for 600 s" in line for line in figures["unlike"])
    assert "not an MLPerf result" in (run / "report.html").read_text()


def refused(folder: Path, *arguments: str) -> CommandRun:
    return lynxbench_here("run", *arguments, "--out", str(folder / "none"), "--ledger", "none", cwd=folder)


def test_a_reference_that_is_none_is_said_before_anything_is_measured(pair: Any, tmp_path: Path) -> None:
    folder, (wide, _), _ = pair
    with planted_server(PlantedModel()) as url:
        plain = tmp_path / "plain.yaml"
        plain.write_text(served_contract(url, engine="stream: false"))
        done = refused(tmp_path, str(plain), "--reference", str(wide))
        assert (done.code, "asks a server no answers" in done.err) == (2, True)
        contract = write_contract(folder, "third", url, "fp8")
        done = refused(tmp_path, contract, "--reference", str(tmp_path / "nowhere"))
        assert done.code == 2
        done = refused(tmp_path, contract, "--reference", str(wide), "--resume")
        assert (done.code, "leave it out" in done.err) == (2, True)
    assert not (tmp_path / "none").exists()


def test_precisions_of_servers_are_decided_side_by_side(pair: Any) -> None:
    folder, (wide, _), (narrow, figures) = pair
    done = lynxbench_here("decide", "precision", str(wide), str(narrow), "--json", "--ledger", "none", cwd=folder)
    document = json.loads(done.out)
    reference, candidate = document["lines"]
    assert (reference["label"], reference["is_reference"], candidate["label"]) == ("bf16", True, "fp8")
    assert candidate["accuracy"] == figures["accuracy"]["metrics"]
    assert candidate["verdict"] in ("no-go", "undetermined")  # one restart carries no word of its own
    assert candidate["speedup"]["estimate"] > 0
    alone = lynxbench_here("decide", "precision", str(narrow), "--json", "--ledger", "none", cwd=folder)
    assert len(json.loads(alone.out)["lines"]) == 1


def test_an_fp8_cache_is_no_reference_of_itself_and_another_load_is_refused(pair: Any) -> None:
    _, (wide, _), (narrow, _) = pair
    reference, held = read_result(wide), read_result(narrow)
    workload = held.contract.workload.model_copy(update={"precisions": (Precision.BF16,)})
    engine = held.contract.engine.model_copy(update={"kv_cache": KvCacheFormat.FP8})
    figures = held.per_precision[0].model_copy(update={"precision": Precision.BF16})
    contract = held.contract.model_copy(update={"workload": workload, "engine": engine})
    cached = held.model_copy(update={"contract": contract, "per_precision": (figures,)})
    decision = decide_formats([reference, cached])
    assert [line.name for line in decision.lines] == ["bf16", "bf16 with fp8 cache"]
    assert decision.lines[1].speedup != decision.lines[0].speedup
    assert "engine.kv_cache = fp8" in decision.kv_cache.says
    other = contract.model_copy(update={"workload": workload.model_copy(update={"seed": 7})})
    with pytest.raises(Refused, match="another load"):
        decide_formats([reference, cached.model_copy(update={"contract": other})])
    with pytest.raises(Refused, match="--reference"):
        decide_formats([reference, reference.model_copy(update={"result_id": "c" * 64})])
