"""bf16, fp8 weights and an fp8 cache of servers that run already: speed, and accuracy against bf16, one line each.

    python benchmarks/served_accuracy.py [--bf16 URL] [--fp8 URL] [--fp8-cache URL] [--within 120] [--out DIR]

Each is measured for a few seconds with `lynxbench run`, asked a greedy set and a labelled task, and held against the
bf16 server (`--reference`); bf16 is measured twice and held against itself, which must show no more than its noise.
Then `lynxbench compare` is asked for the same pair, and every run is verified. Servers are neither started nor stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

CONTRACT = """\
lynxbench: 1
name: {name}
question: What does this format of the server cost in accuracy, and what does it gain?
regime: throughput
workload:
  task: generate
  model: {{source: served, name: "{model}"}}
  precisions: [{precision}]
  input_tokens: {{distribution: fixed, value: 128}}
  output_tokens: {{distribution: fixed, value: 32}}
  arrival: {{process: closed, concurrency: {in_flight}}}
engine:
  name: openai
  url: {url}
  dialect: {dialect}
  endpoint: completions
  processes: 1
{cache}protocol:
  restarts: 2
  steady: {{drift: 10 %, window: 500 ms}}
  min_duration: {seconds} s
  limit: {seconds} s
policy:
  accuracy: {{metric: top1, largest_loss: 5 %}}
accuracy:
  greedy: {{prompts: {prompts}, tokens: 32}}
  task: {{file: "{task}", scorer: choice, most: {questions}}}
"""
CASES = (
    ("bf16", "bf16", "", "bf16"),
    ("bf16-again", "bf16", "", "bf16"),
    ("fp8", "fp8", "", "fp8"),
    ("fp8-cache", "bf16", "  kv_cache: fp8\n", "fp8_cache"),
)
"""Name, declared precision, a line of the engine, and whose address."""
PORTS = {"bf16": 8000, "fp8": 8001, "fp8_cache": 8002}
FEWEST_S = 20.0
"""A case needs about this; with less left it is said and left out."""


def main() -> None:
    """Measure every server that answers, within the time."""
    parser = argparse.ArgumentParser()
    for name, port in PORTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", default=f"http://127.0.0.1:{port}/v1")
    parser.add_argument("--dialect", default="vllm")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--within", type=float, default=120.0)
    parser.add_argument("--out", type=Path, default=Path("served-accuracy"))
    given = parser.parse_args()
    until = time.monotonic() + given.within
    given.out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="served-accuracy-") as scratch:
        folder = Path(scratch)
        task = write_task(folder / "polarity.jsonl")
        reference: Path | None = None
        for name, precision, cache, whose in CASES:
            url = getattr(given, whose)
            left_s = until - time.monotonic()
            if left_s < FEWEST_S:
                say(f"{name:11} left out: {left_s:.0f} s left")
                continue
            model = served_model(url)
            if model is None:
                say(f"{name:11} no server at {url}")
                continue
            contract = folder / f"{name}.yaml"
            contract.write_text(
                CONTRACT.format(
                    name=name, model=model, precision=precision, url=url, cache=cache, task=task,
                    dialect=given.dialect, prompts=given.prompts, questions=given.questions,
                    in_flight=given.in_flight, seconds=given.seconds,
                )
            )  # fmt: skip
            options = ["--reference", str(reference)] if reference is not None and name != "bf16" else []
            began = time.monotonic()
            done = lynxbench(
                ["run", str(contract), "--out", str(folder / name), "--ledger", "none", "--json", *options], left_s
            )
            run = next(iter((folder / name).glob("*/result.json")), None)
            if run is None:
                say(f"{name:11} failed: {done.stderr.strip().splitlines()[-1:] or done.returncode}")
                continue
            result = json.loads(run.read_text())
            verified = lynxbench(["verify", str(run.parent), "--ledger", "none"], max(5.0, until - time.monotonic()))
            reference = reference or (run.parent if name == "bf16" else None)
            rows[name] = {"result": result["per_precision"][0]["accuracy"], "verify": verified.returncode}
            (given.out / "accuracy.json").write_text(json.dumps(rows, indent=1))
            say(line(name, result, time.monotonic() - began, verified.returncode))
            with tarfile.open(given.out / f"{name}.tar.gz", "w:gz") as archive:
                archive.add(run.parent, arcname=run.parent.name)
            if options and name == "fp8":
                compared = lynxbench(["compare", str(reference), str(run.parent), "--ledger", "none", "--json"], 30.0)
                answers = json.loads(compared.stdout or "{}").get("answers")
                same = answers is not None and answers["metrics"] == result["per_precision"][0]["accuracy"]["metrics"]
                say(f"{'':11} compare: exit {compared.returncode}, the same agreement: {'yes' if same else 'NO'}")
    say(f"{len(rows)} of {len(CASES)} measured, {given.within - (until - time.monotonic()):.0f} s")


def line(name: str, result: dict, spent_s: float, verified: int) -> str:
    """One server in a line."""
    part = result["per_precision"][0]
    metrics = part["accuracy"]["metrics"] if part["accuracy"] else {}
    rate = (part["throughput"] or {}).get("estimate")
    shown = {
        "agree": "token-agreement", "self": "self-agreement", "top1": "top1", "level": "level-agreement",
        "dlogp": "logprob-change", "|dlogp|": "logprob-error", "noise": "logprob-error-noise",
        "text dlogp": "text-logprob-change", "task": "task", "dtask": "task-change",
    }  # fmt: skip
    words = [f"{short} {metrics[key]:.4g}" for short, key in shown.items() if metrics.get(key) is not None]
    speed = "no figure" if rate is None else f"{rate:.0f} tok/s"
    verdict = part["accuracy"]["verdict"] if part["accuracy"] else "none"
    formats = part["executed"]["how"] if part["executed"] else ""
    return f"{name:11} {speed}; {', '.join(words)}; {verdict}; {formats[:90]}; verify {verified}; {spent_s:.0f} s"


def write_task(path: Path) -> Path:
    """The bundled labelled sentences as a task file with two choices."""
    from lynxbench.workload.texts import read_polarity

    rows = [sentence for sentence in read_polarity() if sentence.is_test]
    path.write_text(
        "".join(
            json.dumps({
                "prompt": f"Review: {row.text}\nThe sentiment of this review is",
                "choices": ["negative", "positive"],
                "answer": row.label,
            }) + "\n"
            for row in rows
        )
    )  # fmt: skip
    return path


def served_model(url: str) -> str | None:
    """The first model of a server; None where it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=5) as answer:
            return str(json.load(answer)["data"][0]["id"])
    except (OSError, ValueError, LookupError):
        return None


def lynxbench(arguments: list[str], within_s: float) -> subprocess.CompletedProcess[str]:
    """The command, ended where it takes too long."""
    command = [sys.executable, "-m", "lynxbench", *arguments]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=within_s)
    except subprocess.TimeoutExpired as over:
        return subprocess.CompletedProcess(command, 124, "", f"ran past {over.timeout:.0f} s")


def say(text: str) -> None:
    """One line, at once."""
    print(text, flush=True)


if __name__ == "__main__":
    main()
