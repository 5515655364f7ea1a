"""The clients: how each is told what to do, and where its report says what it saw."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from peers.cases import MANY_TOKENS, ONE_TOKEN, Case, Report

HERE = Path(__file__).parent
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@dataclass(frozen=True, slots=True)
class Order:
    """One case for one client: the server's address, for how long, and a folder to leave the report in."""

    case: Case
    base: str
    seconds: float
    folder: Path
    tokenizer: Path
    requests: int
    """How many, for clients that count requests instead of seconds."""


@dataclass(frozen=True, slots=True)
class Client:
    """A load generator under test."""

    name: str
    target: float
    """Our streaming requests/s over theirs that we set out to reach (one token, 64 open)."""
    program: tuple[str, ...]
    command: Callable[[Order], list[str]]
    report: Callable[[Order], Report]
    cases: frozenset[str] | None = None
    """None: all."""
    requests: dict[str, int] = field(default_factory=dict)
    """Requests that take it a few seconds, by case, where the case does not fix them."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> str | None:
        """Why it cannot be started."""
        found = shutil.which(self.program[0])
        return None if found else f"not installed ({self.program[0]}); `make bench-peers` installs it"


def clients(environments: Path) -> list[Client]:
    """Ours first, then the peers in their environments."""

    def inside(environment: str, program: str) -> str:
        return str(environments / environment / "bin" / program)

    return [
        Client("lynxbench", 1.0, (sys.executable, "-m", "peers.lynxbench_client"), _ours, _our_report,
               environment={"PYTHONPATH": str(HERE.parent)}),
        Client("wrk", 0.25, ("wrk",), _wrk, _no_report, cases=frozenset({ONE_TOKEN.name})),
        Client("vllm", 10.0, (inside("vllm", "python"), str(HERE / "vllm_bench.py")), _vllm, _vllm_report,
               requests={ONE_TOKEN.name: 10_000, MANY_TOKENS.name: 4_000}, environment=OFFLINE),
        # Its offline mode takes tokenizers from a hub's cache only, not from a folder.
        Client("aiperf", 50.0, (inside("aiperf", "aiperf"),), _aiperf, _aiperf_report,
               requests={ONE_TOKEN.name: 2_000, MANY_TOKENS.name: 1_000}),
        # On one core a second worker process only takes time from the first.
        Client("guidellm", 100.0, (inside("guidellm", "guidellm"),), _guidellm, _guidellm_report,
               requests={ONE_TOKEN.name: 1_500, MANY_TOKENS.name: 800},
               environment={**OFFLINE, "GUIDELLM__MAX_WORKER_PROCESSES": "1"}),
    ]  # fmt: skip


# --- ours ------------------------------------------------------------------------------------------------------------


def _ours(order: Order) -> list[str]:
    return [f"{order.base}/v1", order.case.name, str(order.seconds), str(order.folder / "report.json")]


def _our_report(order: Order) -> Report:
    return Report(**json.loads((order.folder / "report.json").read_text()))


# --- wrk: no parsing, no report of tokens ----------------------------------------------------------------------------


def _wrk(order: Order) -> list[str]:
    from lynxbench.engines.openai import Service, build_body

    body = build_body(Service(url=order.base, model="mock"), "hello there", order.case.tokens).decode()  # what we send
    script = order.folder / "post.lua"
    script.write_text(f"wrk.method='POST'\nwrk.body='{body}'\nwrk.headers['Content-Type']='application/json'\n")
    return ["-t1", f"-c{order.case.concurrency}", f"-d{order.seconds:.0f}s", "-s", str(script),
            f"{order.base}/v1/chat/completions"]  # fmt: skip


def _no_report(order: Order) -> Report:
    return Report()


# --- vLLM's serving benchmark ----------------------------------------------------------------------------------------


def _vllm(order: Order) -> list[str]:
    case = order.case
    arguments = [
        *("--backend", "openai-chat", "--base-url", order.base, "--endpoint", "/v1/chat/completions"),
        *("--model", "mock", "--tokenizer", str(order.tokenizer), "--dataset-name", "random", "--disable-tqdm"),
        *("--random-input-len", "8", "--random-output-len", str(case.tokens), "--num-prompts", str(order.requests)),
        *("--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "99"),
        *("--save-result", "--result-dir", str(order.folder), "--result-filename", "report.json"),
    ]
    if case.rate_per_s:
        return [*arguments, "--request-rate", f"{case.rate_per_s:g}", "--burstiness", "1000000"]  # evenly spaced
    return [*arguments, "--max-concurrency", str(case.concurrency)]


def _vllm_report(order: Order) -> Report:
    said = json.loads((order.folder / "report.json").read_text())
    return Report(
        ttft_mean_ms=said.get("mean_ttft_ms"),
        ttft_p99_ms=said.get("p99_ttft_ms"),
        itl_mean_ms=said.get("mean_itl_ms"),
        itl_median_ms=said.get("median_itl_ms"),
        ok=said.get("completed"),
        failed=said.get("failed"),
        extra={"tpot_mean_ms": said.get("mean_tpot_ms")},
    )


# --- AIPerf ----------------------------------------------------------------------------------------------------------


def _aiperf(order: Order) -> list[str]:
    case = order.case
    arguments = [
        *("profile", "--model", "mock", "--tokenizer", str(order.tokenizer)),
        *("--url", order.base, "--endpoint-type", "chat"),
        *("--streaming", "--isl", "8", "--osl", str(case.tokens), "--request-count", str(order.requests)),
        *("--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", str(order.folder / "aiperf")),
    ]
    if case.rate_per_s:
        return [*arguments, "--request-rate", f"{case.rate_per_s:g}", "--arrival-pattern", "constant"]
    return [*arguments, "--concurrency", str(case.concurrency)]


def _aiperf_report(order: Order) -> Report:
    (path,) = (order.folder / "aiperf").rglob("profile_export_aiperf.json")
    said = json.loads(path.read_text())
    first, gap = said.get("time_to_first_token") or {}, said.get("inter_token_latency") or {}
    count, errors = said.get("request_count") or {}, said.get("error_request_count") or {}
    return Report(
        ttft_mean_ms=first.get("avg"),
        ttft_p99_ms=first.get("p99"),
        itl_mean_ms=gap.get("avg"),
        itl_median_ms=gap.get("p50"),
        ok=None if "avg" not in count else int(count["avg"]),
        failed=None if "avg" not in errors else int(errors["avg"]),
    )


# --- GuideLLM --------------------------------------------------------------------------------------------------------


def _guidellm(order: Order) -> list[str]:
    case = order.case
    profile = (
        f"kind=constant,rate={case.rate_per_s:g}" if case.rate_per_s else f"kind=concurrent,streams={case.concurrency}"
    )
    return [
        *("run", "--disable-console", "--backend", f"kind=openai_http,target={order.base},model=mock"),
        *("--profile", profile, "--constraint", f"kind=max_requests,count={order.requests}"),
        *("--data", f"kind=synthetic_text,prompt_tokens=8,output_tokens={case.tokens}"),
        *("--tokenizer", f"kind=huggingface_auto,model={order.tokenizer}"),
        *("--output", f"kind=json,path={order.folder / 'guidellm.json'}"),
    ]


def _guidellm_report(order: Order) -> Report:
    said = json.loads((order.folder / "guidellm.json").read_text())["benchmarks"][0]["metrics"]
    first, gap = said["time_to_first_token_ms"]["successful"], said["inter_token_latency_ms"]["successful"]
    totals = said.get("request_totals") or {}
    return Report(
        ttft_mean_ms=first.get("mean"),
        ttft_p99_ms=(first.get("percentiles") or {}).get("p99"),
        itl_mean_ms=gap.get("mean"),
        itl_median_ms=gap.get("median"),
        ok=totals.get("successful"),
        failed=totals.get("errored"),
    )
