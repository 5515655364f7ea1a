"""The clients: how each is told what to do, and where its report says what it saw."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from peers.cases import FAULTS, IDLE_LIMIT_S, MANY_TOKENS, ONE_TOKEN, OPEN, STAMPS, Case, Report
from peers.tokenizer import WORDS

HERE = Path(__file__).parent
FEWER_STREAMS = frozenset(case.name for case in STAMPS[:-1])
"""What clients that are two orders slower are asked last: 512 streams, and 32 of `role_at_start`, ask the same."""
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
    target: float | None
    """Our streaming requests/s over theirs that we set out to reach (one token, 64 open); None: no bar was set."""
    program: tuple[str, ...]
    command: Callable[[Order], list[str]]
    report: Callable[[Order], Report]
    cases: frozenset[str] | None = None
    """None: all."""
    requests: dict[str, int] = field(default_factory=dict)
    """Requests that take it a few seconds, by case, where the case does not fix them."""
    environment: dict[str, str] = field(default_factory=dict)
    last: frozenset[str] = frozenset()
    """Cases that are asked after all others, and left out where a sitting's time is spent by then."""
    cannot: dict[str, str] = field(default_factory=dict)
    """What a case asks that it has no way to do, by case, as the table says it; the case is run all the same."""
    where: str = "`make bench-peers` installs it"

    @property
    def missing(self) -> str | None:
        """Why it cannot be started."""
        found = shutil.which(self.program[0])
        return None if found else f"not installed ({self.program[0]}); {self.where}"


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
               requests={ONE_TOKEN.name: 2_000, MANY_TOKENS.name: 1_000}, last=FEWER_STREAMS),
        # On one core a second worker process only takes time from the first.
        Client("guidellm", 100.0, (inside("guidellm", "guidellm"),), _guidellm, _guidellm_report,
               requests={ONE_TOKEN.name: 1_500, MANY_TOKENS.name: 800}, last=FEWER_STREAMS,
               environment={**OFFLINE, "GUIDELLM__MAX_WORKER_PROCESSES": "1"}),
        Client("endpoints", None, (inside("endpoints", "inference-endpoint"),), _endpoints, _endpoints_report,
               requests={ONE_TOKEN.name: 20_000, MANY_TOKENS.name: 6_000}, environment=OFFLINE,
               cannot={OPEN.name: "Poisson arrivals only: no even schedule to be late against"},
               where="it is github.com/mlcommons/endpoints, for Python 3.12, into an environment of that name"),
        Client("inference-perf", None, (inside("inference-perf", "inference-perf"),), _inference_perf,
               _inference_perf_report, requests={ONE_TOKEN.name: 2_000, MANY_TOKENS.name: 800}, last=FEWER_STREAMS,
               environment=OFFLINE,
               where="`make bench-peers` installs it where there is a Python 3.12 (PYTHON312=…)"),
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
        *(("--request-timeout-seconds", f"{IDLE_LIMIT_S:g}") if case is FAULTS else ()),
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
    limit = f",timeout={IDLE_LIMIT_S:g}" if case is FAULTS else ""
    return [
        *("run", "--disable-console", "--backend", f"kind=openai_http,target={order.base},model=mock{limit}"),
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


# --- mlcommons/endpoints ---------------------------------------------------------------------------------------------


def _endpoints(order: Order) -> list[str]:
    case = order.case
    prompts = order.folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in _prompts(1000)))
    arguments = [
        *("benchmark", "online", "--endpoints", order.base, "--model", "mock", "--tokenizer", str(order.tokenizer)),
        *("--dataset", str(prompts), "--max-output-tokens", str(case.tokens), "--streaming", "on"),
        *("--num-samples", str(order.requests), "--duration", "0", "--report-dir", str(order.folder / "endpoints")),
        # One worker and no pinning of its own: what it measures with has one core, and its plan would leave that core.
        *("--workers", "1", "--no-cpu-affinity", "--performance-drain-timeout", f"{IDLE_LIMIT_S:g}"),
    ]
    # By default it opens a quarter of the machine's ports beforehand: thousands of connections that no case needs.
    arguments += ["--client.warmup-connections", str(case.concurrency or 64)]
    if case.rate_per_s:
        return [*arguments, "--load-pattern", "poisson", "--target-qps", f"{case.rate_per_s:g}"]
    return [*arguments, "--load-pattern", "concurrency", "--concurrency", str(case.concurrency)]


def _prompts(count: int) -> list[str]:
    """Of eight words that the tokenizer has, each another."""
    return [" ".join(f"word{4 + (8 * number + place) % (WORDS - 4)}" for place in range(8)) for number in range(count)]


def _endpoints_report(order: Order) -> Report:
    said = json.loads((order.folder / "endpoints" / "performance" / "result_summary.json").read_text())
    first, gap = said.get("ttft") or {}, said.get("tpot") or {}
    issued, ended, failed = (said[f"n_samples_{kind}"] for kind in ("issued", "completed", "failed"))
    return Report(
        ttft_mean_ms=_ms(first.get("avg")),
        ttft_p99_ms=_ms((first.get("percentiles") or {}).get("99.0")),
        itl_mean_ms=_ms(gap.get("avg")),  # over what came after the first token; it keeps no single gaps
        ok=ended - failed,  # what failed is among the completed
        failed=failed,
        extra={"counts": {"ok": ended - failed, "failed": failed, "not ended": issued - ended}},
    )


def _ms(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1e6


# --- inference-perf --------------------------------------------------------------------------------------------------


def _inference_perf(order: Order) -> list[str]:
    case = order.case
    stage: dict[str, float]
    if case.rate_per_s:
        kind, stage = "constant", {"rate": case.rate_per_s, "duration": round(order.requests / case.rate_per_s)}
    else:
        kind, stage = "concurrent", {"num_requests": order.requests, "concurrency_level": case.concurrency}
    settings = {
        "api": {"type": "chat", "streaming": True},
        "server": {"type": "vllm", "model_name": "mock", "base_url": order.base},
        "tokenizer": {"pretrained_model_name_or_path": str(order.tokenizer)},
        "data": {"type": "mock"},  # its prompts for chats; those of a length by distribution are for completions only
        "load": {"type": kind, "stages": [stage], "num_workers": 1}
        | ({"request_timeout": IDLE_LIMIT_S} if case is FAULTS else {}),
        "storage": {"local_storage": {"path": str(order.folder / "inference-perf")}},
    }
    file = order.folder / "inference-perf.yml"
    file.write_text(json.dumps(settings))  # JSON is YAML
    return ["--config_file", str(file)]


def _inference_perf_report(order: Order) -> Report:
    said = json.loads((order.folder / "inference-perf" / "summary_lifecycle_metrics.json").read_text())
    latency = said["successes"].get("latency") or {}
    first, gap = latency.get("time_to_first_token") or {}, latency.get("inter_token_latency") or {}
    behind = said["load_summary"].get("schedule_delay") or {}
    return Report(
        ttft_mean_ms=_of_seconds(first.get("mean")),
        ttft_p99_ms=_of_seconds(first.get("p99")),
        itl_mean_ms=_of_seconds(gap.get("mean")),
        itl_median_ms=_of_seconds(gap.get("median")),
        ok=said["successes"]["count"],
        failed=said["failures"]["count"],
        # With so many open at a time it counts the wait for a place as delay, which nobody asked it to avoid.
        extra={"late_mean_ms": _of_seconds(behind.get("mean"))} if order.case.rate_per_s else {},
    )


def _of_seconds(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1e3
