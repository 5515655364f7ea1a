"""`lynxbench run` with the work that production sends, against the bundled server: what it logged is the truth."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from command_line import lynxbench_here
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.truth_process import running_server
from served import expect_client_kept_up, served_contract

pytestmark = pytest.mark.usefixtures("one_preflight")

CANARY = "quetzalcoatlus"
LENGTHS = "  input_tokens: {distribution: fixed, value: 10}\n"
OUTPUT = "  output_tokens: {distribution: fixed, value: 4}\n"


def run_json(folder: Path, workload: str, url: str, lengths: bool = False, expected: int = 0, **changes) -> dict:
    text = served_contract(url, **{"restarts": 1, "shortest": "1 s", "longest": "1 s", "idle": "2 s", **changes})
    if not lengths:
        text = text.replace(LENGTHS, "").replace(OUTPUT, "")
    (folder / "served.yaml").write_text(text.replace("engine:\n", f"{workload}engine:\n", 1), encoding="utf-8")
    done = lynxbench_here("run", "served.yaml", "--json", cwd=folder)
    if done.code in (0, 1):
        expect_client_kept_up(json.loads(done.out))
    assert done.code == expected, done.err
    return json.loads(done.out)


def holds(folder: Path, word: str) -> list[str]:
    """The files of a folder, packed ones opened, in which a word stands."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        parts = [path.read_bytes()]
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                parts += [packed.read(name) for name in packed.namelist()]
        if any(word.encode() in part for part in parts):
            found.append(path.name)
    return found


def test_prompts_models_and_leaving_are_accounted_for_and_no_text_is_kept(tmp_path: Path):
    rows = [{"messages": [{"role": "user", "content": f"{CANARY} {n}"}], "output_tokens": 6} for n in range(50)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    work = (
        "  prompts: {file: prompts.jsonl, form: jsonl}\n"
        "  models: [{name: ground-truth, share: 60 %}, {name: lora, share: 40 %}]\n"
        "  cancel: {share: 20 %, after_events: 2}\n"
    )
    # an answer lasts long enough for its client to have left, however late that one gets its turn
    behaviour = Behaviour(ttft_ms=5, itl_ms=60, http500=0.1, quotes=True, count_words=True, other_models_ms=40)
    with running_server(behaviour) as server:
        arrival = "{process: constant, rate: 150 /s}"
        result = run_json(tmp_path, work, server.url, arrival=arrival)
        truth = server.stop()
    load = result["per_precision"][0]["load"]
    counted = load["accounting"]
    assert counted["offered"] == 150 == counted["ok"] + counted["cancelled"] + sum(counted["failed"].values())
    assert counted["cancelled"] == truth.count(ServedOutcome.CLIENT_CLOSED) > 10
    assert counted["failed"] == {"http_error": truth.count(ServedOutcome.HTTP500)}
    assert list(counted["said"]) == ["500: (withheld: it may quote a prompt; workload.prompts.keep_text keeps it)"]
    (source,) = load["sources"]
    assert (source["what"], source["file"], source["rows"]) == ("prompts", "prompts.jsonl", 50)
    assert source["size_bytes"] == (tmp_path / "prompts.jsonl").stat().st_size
    base, lora = load["models"]
    assert base["first_token_ms"][0] < 40 <= lora["first_token_ms"][0]
    assert lora["offered"] / (base["offered"] + lora["offered"]) == pytest.approx(0.4, abs=0.05)
    assert "cancelled by the client" in next((tmp_path / "results").rglob("report.html")).read_text()
    assert holds(tmp_path / "results", CANARY) == []
    verified = lynxbench_here("verify", str(next((tmp_path / "results").iterdir())), cwd=tmp_path)
    assert verified.code == 0, verified.out + verified.err


def test_a_trace_with_hashes_meets_the_cache_that_it_recorded(tmp_path: Path):
    draw = np.random.default_rng(5)
    known, rows = [[0]], []
    for place in range(120):
        ids = [*known[draw.integers(len(known))][: draw.integers(1, 6)], 1000 + 2 * place]
        known.append(list(ids))
        rows.append({"timestamp": 8 * place, "input_length": 64 * len(ids) - 7, "output_length": 2, "hash_ids": ids})
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replayed = {"arrival": "{process: replay, path: trace.jsonl}", "longest": "3 s"}
    engine = "dialect: vllm\ncache: traced\nprefix: {block: 64, reset: true}"
    with running_server(Behaviour(ttft_ms=1, cache_block=4)) as server:
        result = run_json(tmp_path, "", server.url, engine=engine, **replayed)
    cache = result["per_precision"][0]["load"]["cache"]
    assert cache["regime"] == "traced"
    assert cache["expected"]["share"] > 0.3
    assert cache["counted_share"] == pytest.approx(cache["expected"]["share"], abs=0.02)
    assert cache["reset"] == "emptied 1 times"
    assert result["per_precision"][0]["load"]["sources"][0]["what"] == "trace"
    assert not any("points" in reason for reason in result["validity"]["reasons"])


def test_sessions_are_replayed_and_thinking_is_told_from_answering(tmp_path: Path):
    rows = []
    for session in range(20):
        rows += [
            {"session": session, "at": session / 25, "input_tokens": 8, "output_tokens": 6},
            {"session": session, "call": "a", "after": [0], "gap": 0.05, "input_tokens": 8, "output_tokens": 6},
            {"session": session, "call": "b", "after": [0], "gap": 0.02, "input_tokens": 8, "output_tokens": 6},
        ]
    for row in rows:
        row.setdefault("call", 0)
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    says = json.dumps({"a": 1})
    work = "  prompts: {file: s.jsonl, form: sessions}\n  answers: {form: json}\n"
    with running_server(Behaviour(ttft_ms=10, itl_ms=5, reasoning=3, says=says)) as server:
        result = run_json(
            tmp_path,
            work,
            server.url,
            arrival="{process: replay, path: s.jsonl}",
            longest="3 s",
            engine="cache: allowed",
        )
        truth = server.stop()
    load = result["per_precision"][0]["load"]
    assert load["accounting"]["ok"] == load["accounting"]["offered"] == 60 == truth.count(ServedOutcome.OK) - 2
    assert load["answers"] == {"form": "json", "checked": 60, "valid": 60, "problems": {}}
    assert load["tokens"]["reasoning_mean"] == 3
    latency = {name: rows[0]["estimate"] for name, rows in result["per_precision"][0]["latency_ms"].items()}
    assert latency["time-to-first-answer"] - latency["time-to-first-token"] == pytest.approx(15, abs=8)
    sessions = load["sessions"]
    assert sessions["whole"] == sessions["offered"] > 5
    assert sessions["duration_ms"][0] >= 50 + 2 * 35
    assert sessions["waiting_ms"][0] <= sessions["duration_ms"][0] - 15
