"""A real vLLM on one GPU, measured by lynxbench and by vLLM's own client against the same server, in one call.

    python3 benchmarks/served_reference.py --vllm DIR --out OUT [--within 560] [--only closed|saturation|formats ...]

DIR holds vLLM for an offline node (vllm_serve.sh, vllm_model, vllm_site). Three servers of Llama 3.1 8B's shape are
started at once and measured one at a time: bf16, fp8 weights, fp8 cache. Closed loops with 1, 8, 64 and 256 in flight,
`vllm bench serve` at 1 and 64 beside them, the saturation search, both narrow formats against bf16
(served_accuracy.py), and the search again where time is left. Bundles, reports and a summary go to OUT.
Exit 1 where a bar breaks, 4 where no server starts. Servers are stopped in every case.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]

from offline_node import Node, Step, carry_out, collect  # noqa: E402

MODEL = "llama-3.1-8b-random"
INPUT, OUTPUT = 327, 138
IN_FLIGHT = (1, 8, 64, 256)
BESIDE = {1: 16, 64: 768}
"""Where vLLM's own client runs beside, with how many requests."""
READY_S = 300.0
SEARCH_S = 175.0
"""What a search of 90 s of probes takes with all that is around it."""
SERVER_TOTALS = {
    "requests": "vllm:time_to_first_token_seconds_count",
    "first_token_s": "vllm:time_to_first_token_seconds_sum",
    "queue_s": "vllm:request_queue_time_seconds_sum",
    "prefill_s": "vllm:request_prefill_time_seconds_sum",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
}
"""What the server counts: held against what either client says."""
THROUGHPUT_BAR, FIRST_TOKEN_BAR_MS = 0.02, 2.0
FORMATS: dict[str, tuple[str, ...]] = {
    "bf16": (),
    "fp8": ("--quantization", "fp8"),
    "fp8-cache": ("--kv-cache-dtype", "fp8"),
}
"""By name: what the server is told beside the usual."""
CACHE_BYTES = {"bf16": 24 << 30, "fp8": 16 << 30, "fp8-cache": 12 << 30}
CLOSED = """\
lynxbench: 1
name: {name}
question: What does vLLM give with {in_flight} requests in flight, {words}?
regime: throughput
workload:
  task: generate
  model: {{source: served, name: {model}, tokenizer: "{tokenizer}"}}
  precisions: [{precision}]
  input_tokens: {{distribution: fixed, value: {input}}}
  output_tokens: {{distribution: fixed, value: {output}}}
  arrival: {{process: closed, concurrency: {in_flight}}}
  seed: 20260101
engine: {{name: openai, url: "http://127.0.0.1:{port}/v1", endpoint: completions, dialect: vllm, cache: avoided}}
protocol: {{version: 1, restarts: {restarts}, steady: {{drift: 5 %, window: 2 s}}, min_duration: 20 s, limit: 24 s}}
"""
SATURATION = """\
lynxbench: 1
name: vllm-saturation
question: How many requests a second does vLLM hold within its objective, bf16?
regime: latency
workload:
  task: generate
  model: {{source: served, name: {model}, tokenizer: "{tokenizer}"}}
  precisions: [bf16]
  input_tokens: {{distribution: fixed, value: {input}}}
  output_tokens: {{distribution: fixed, value: {output}}}
  arrival: {{process: saturating, tolerance: 15 %, budget: 90 s}}
  seed: 20260101
engine: {{name: openai, url: "http://127.0.0.1:{port}/v1", endpoint: completions, dialect: vllm, cache: avoided}}
objective:
  slo:
    - {{metric: time-to-first-token, percentile: 99, at_most: 1 s}}
    - {{metric: time-per-token, percentile: 95, at_most: 50 ms}}
protocol: {{version: 1, restarts: 1, steady: {{drift: 5 %, window: 1 s}}, min_duration: 10 s, limit: 15 s}}
"""


class Servers:
    """Servers of one model on one GPU, each with its port; stopped when left."""

    served = MODEL
    """The name that is asked for."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.folder, self.log = folder, log
        self.running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}

    def start(self, name: str, port: int) -> None:
        """In a process session of its own."""
        log = (self.log / f"vllm-{name}.log").open("wb")
        usual = ["--max-num-seqs", "256", "--max-cudagraph-capture-size", "256", "--generation-config", "vllm"]
        memory = ["--gpu-memory-utilization", "0.3", "--kv-cache-memory-bytes", str(CACHE_BYTES[name])]
        self.running[name] = (
            subprocess.Popen(
                ["bash", str(self.folder / "vllm_serve.sh"), *usual, *memory, *FORMATS[name]],
                env={**os.environ, "PORT": str(port)}, stdout=log, stderr=log, start_new_session=True,
            ),
            port,
        )  # fmt: skip

    def answers(self, name: str, until: float) -> bool:
        """Waits for one completed request; False where the server died or the time is over."""
        child, port = self.running[name]
        body = json.dumps({"model": self.served, "prompt": "One", "max_tokens": 2}).encode()
        while time.monotonic() < until and child.poll() is None:
            try:
                asked = urllib.request.Request(
                    f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"}
                )
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    return bool(json.load(answer)["choices"])
            except (OSError, ValueError, KeyError):
                time.sleep(1)
        return False

    def stop(self, name: str) -> None:
        """The whole process session, first asked, then killed."""
        child, _ = self.running.pop(name)
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(child.pid, sent)
                child.wait(15)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.stop(name)


def own_client(
    folder: Path, port: int, in_flight: int, requests: int, into: Path, *,
    seed: int = 0, limit_s: float = 240.0, output: int = OUTPUT,
) -> dict[str, Any]:  # fmt: skip
    """`vllm bench serve` with the same lengths against the same server, as greedy; each seed has prompts of its own."""
    saved = into / f"vllm-bench-{in_flight}-{seed}.json"
    command = [
        sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai",
        "--base-url", f"http://127.0.0.1:{port}", "--endpoint", "/v1/completions", "--model", MODEL,
        "--tokenizer", str(folder / "vllm_model"), "--dataset-name", "random", "--random-input-len", str(INPUT),
        "--random-output-len", str(output), "--num-prompts", str(requests), "--max-concurrency", str(in_flight),
        "--ignore-eos", "--save-result", "--result-filename", str(saved), "--disable-tqdm",
        "--temperature", "0", "--seed", str(seed),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(folder / "vllm_site")}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=max(limit_s, 1.0)
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {limit_s:.0f} s"}
    if done.returncode or not saved.exists():
        return {"failed": done.stderr[-300:]}
    found = json.loads(saved.read_text())
    keys = (
        "output_throughput",
        "request_throughput",
        "mean_ttft_ms",
        "median_ttft_ms",
        "mean_tpot_ms",
        "completed",
        "total_input_tokens",
    )
    return {key: found.get(key) for key in keys}


def seen_by(port: int) -> dict[str, float]:
    """Totals that the server itself keeps: requests, their prompts' tokens, and its own time to the first token."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line.startswith("vllm:")]
    totals = dict.fromkeys(SERVER_TOTALS, 0.0)
    for name, value in lines:
        for key, metric in SERVER_TOTALS.items():
            if name.partition("{")[0] == metric:
                totals[key] += float(value)
    return {key: totals[key] for key in SERVER_TOTALS}


def between(before: dict[str, float], after: dict[str, float]) -> dict[str, float | None]:
    """What one client's requests were to the server: mean prompt, share found in its cache, mean times in it."""
    grown = {key: after[key] - before[key] for key in before}
    requests = grown["requests"]

    def a_request(key: str, scale: float = 1.0) -> float | None:
        return round(grown[key] / requests * scale, 3) if requests else None

    return {
        "requests": requests,
        "prompt_tokens": a_request("prompt_tokens"),
        "cached_tokens": a_request("cached_tokens"),
        "server_ttft_ms": a_request("first_token_s", 1000),
        "server_queue_ms": a_request("queue_s", 1000),
        "server_prefill_ms": a_request("prefill_s", 1000),
    }


def figures(document: dict[str, Any]) -> dict[str, float | None]:
    """What a result says that vLLM's client says too."""
    one = (document.get("per_precision") or [{}])[0]
    first = {p["percentile"]: p["estimate"] for p in one.get("latency_ms", {}).get("time-to-first-token", [])}
    return {"throughput": (one.get("throughput") or {}).get("estimate"), "median_ttft_ms": first.get(50)}


def searched_for(document: dict[str, Any]) -> str:
    """What a search came to: the claim or what is shown, the upper end, the ceiling, and what it says of itself."""
    found = ((document.get("per_precision") or [{}])[0].get("load") or {}).get("saturation")
    if not found:
        return "no record"
    keys = (
        "passed_per_s",
        "confirmed",
        "at_least_per_s",
        "failed_per_s",
        "undecided_per_s",
        "ceiling_per_s",
        "probe_s",
    )
    return json.dumps({key: found.get(key) for key in (*keys, "note")})


def held_to(own: dict[str, Any], beside: dict[str, Any]) -> str:
    """How far apart the two clients are, and whether the bars hold."""
    if not own.get("throughput") or not beside.get("output_throughput"):
        return "nothing to compare"
    apart = own["throughput"] / beside["output_throughput"] - 1
    later = own["median_ttft_ms"] - beside["median_ttft_ms"]
    holds = abs(apart) <= THROUGHPUT_BAR and abs(later) <= FIRST_TOKEN_BAR_MS
    return f"throughput {apart:+.1%}, first token {later:+.2f} ms: {'holds' if holds else 'BREAKS'}"


def held_against_bf16(node: Node, ports: dict[str, int], into: Path) -> None:
    """Speed and accuracy of the narrow formats beside bf16: served_accuracy.py on the servers that run."""
    words = [f"--{name}=http://127.0.0.1:{port}/v1" for name, port in ports.items()]
    script = [sys.executable, str(Path(__file__).with_name("served_accuracy.py")), "--within", "140"]
    done = subprocess.run(
        [*script, "--out", str(into / "accuracy"), *words],
        env=node.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in (done.stdout + done.stderr).strip().splitlines()[-14:]:
        node.say(line)


def main() -> int:
    """Servers up, contracts one after the other, what comes back."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vllm", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, default=ROOT / "carry" / "served")
    parser.add_argument("--site", type=Path, default=ROOT / "carry" / "site")
    parser.add_argument("--within", type=float, default=560)
    parser.add_argument("--only", action="append", choices=["closed", "saturation", "formats"])
    options = parser.parse_args()
    node = Node(options.out, options.state, options.site, options.within)
    wanted = options.only or ["closed", "saturation", "formats"]
    names = ["bf16", *(["fp8", "fp8-cache"] if "formats" in wanted else [])]
    ports = {name: 8000 + number for number, name in enumerate(FORMATS)}
    tokenizer = os.path.relpath(options.vllm / "vllm_model" / "tokenizer.json")
    contracts = options.state / "contracts"
    contracts.mkdir(parents=True, exist_ok=True)
    with Servers(options.vllm, options.out) as servers:
        for name in names:
            servers.start(name, ports[name])
        until = time.monotonic() + READY_S
        up = [name for name in names if servers.answers(name, until)]
        node.say(f"servers up: {', '.join(up) or 'none'}")
        if "bf16" not in up:
            return 4
        steps: list[Step] = []
        beside: dict[str, Any] = {}

        def measured(name: str, text: str, limit_s: float, **keys: object) -> dict[str, Any]:
            path = contracts / f"{name}.yaml"
            usual = {"model": MODEL, "tokenizer": tokenizer, "input": INPUT, "output": OUTPUT, "name": name}
            path.write_text(text.format(**usual | keys))
            steps.append(Step(str(path), limit_s))
            return carry_out(node, steps[-1])

        for in_flight in IN_FLIGHT if "closed" in wanted else ():
            keys = {"in_flight": in_flight, "words": "bf16", "precision": "bf16", "port": ports["bf16"]}
            keys["restarts"] = 2 if in_flight in BESIDE else 1
            before = seen_by(ports["bf16"])
            own: dict[str, Any] = dict(figures(measured(f"vllm-closed-{in_flight}", CLOSED, 90, **keys)))
            if in_flight in BESIDE:
                own["server"] = between(before, after := seen_by(ports["bf16"]))
                theirs = own_client(
                    options.vllm, ports["bf16"], in_flight, BESIDE[in_flight], options.out, seed=in_flight
                )
                theirs["server"] = between(after, seen_by(ports["bf16"]))
                said = held_to(own, theirs)
                beside[str(in_flight)] = {"lynxbench": own, "vllm bench serve": theirs, "said": said}
                node.say(f"{in_flight} in flight: lynxbench {own}; vllm bench serve {theirs}; {said}")

        collect(node, steps)  # what is measured comes back, also where the call is cut off later

        def searched(turn: str) -> None:
            found = measured(f"vllm-saturation-{turn}", SATURATION, 200, port=ports["bf16"])
            node.say(f"saturation: {searched_for(found)}")

        if "saturation" in wanted:
            searched("first")
        if "formats" in wanted and {"fp8", "fp8-cache"} <= set(up):
            held_against_bf16(node, ports, options.out)
        if "saturation" in wanted and node.left_s > SEARCH_S:
            searched("second")
        (options.out / "own_client.json").write_text(json.dumps(beside, indent=1))
    collect(node, steps)
    broken = any("BREAKS" in row["said"] for row in beside.values())
    return 0 if not broken and all(step.status == "measured" for step in steps) else 1


if __name__ == "__main__":
    sys.exit(main())
