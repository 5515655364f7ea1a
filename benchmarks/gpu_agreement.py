"""lynxbench's step times beside triton's do_bench and plain CUDA-graph replay, burst and sustained, on one GPU.

    PYTHONPATH=src python benchmarks/gpu_agreement.py [--case NAME] [--seconds 6]

Burst: both after the same rest, over 100 ms, with the same flush of the cache before every step: the flush is memory
traffic, and a power-capped device recovers in it. Sustained: after seconds of the same load, with do_bench timing a
stretch of back-to-back steps. These two are judged, for a recorded step also against its plain replay. Our burst
without the flush is shown beside them and not judged: its steps follow each other, so it is another state. Exit 1 where
a judged figure is more than 1 % off do_bench's median in the same state; 4 without a CUDA device.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpu_setting import contract_of, describe, drive_for, find_device, finish, median_ms, open_session, rest

BAR = 0.01
REST_S = 1.5
BURST_WARM_S, BURST_S = 0.025, 0.1
FEWEST_STEPS = 10
"""A burst of long steps holds so many, however long that takes."""
STRETCH_S = 0.08
"""Back-to-back steps that do_bench times as one: its flush is a thousandth of that."""
FLUSH_BYTES = 256 << 20
"""What do_bench writes before every step, to empty the device's caches."""
JUDGED = ("burst", "sustained", "graph_replay")
"""Pairs in the same state; the others are shown."""
SIDE = 8192
COPIED_BYTES = 2 << 30


@dataclass
class Case:
    """A step that the driver queues, and the same step without an index for others."""

    step: Callable[[int], object]
    replay: Callable[[], object] | None = None
    """The bare recording of the step, where it is one."""
    close: Callable[[], object] = lambda: None

    def bare(self) -> object:
        """The step on its first inputs."""
        return self.step(0)


def product(device: Any, side: int = SIDE) -> Case:
    """bf16 matrix product on random data, four pairs in turn."""
    import torch

    pairs = [tuple(torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2)) for _ in range(4)]
    out = torch.empty(side, side, device=device, dtype=torch.bfloat16)
    return Case(lambda index: torch.mm(*pairs[index % 4], out=out))


def copy(device: Any, size: int = COPIED_BYTES) -> Case:
    """A copy within the device's memory, random data, two sources in turn."""
    import torch

    sources = [torch.rand(size // 4, device=device) for _ in range(2)]
    target = torch.empty_like(sources[0])
    return Case(lambda index: target.copy_(sources[index % 2]))


def decode(device: Any, model: str = "llama-3.1-8b", layers: int | None = None) -> Case:
    """One token more at batch 1, as a CUDA graph."""
    graph = "cuda-graph" if device.type == "cuda" else "eager"
    session = open_session(
        contract_of("decode", model, "bf16" if graph != "eager" else "fp32", tokens=512 if layers is None else 16,
                    graph=graph, layers=layers, device=device.type,
                    timing="device" if device.type == "cuda" else "host")
    )  # fmt: skip
    replay = None
    if graph == "cuda-graph":
        (recording,) = session._work._next._recorded.values()
        replay = recording._graph.replay
        session._work._rewind()  # bare replays move the position on: from the context, within the cache
    return Case(session.step, replay, session.close)


def prefill(device: Any, model: str = "llama-3.1-8b", layers: int | None = None) -> Case:
    """A prompt of 2048 tokens."""
    cuda = device.type == "cuda"
    session = open_session(
        contract_of("prefill", model, "bf16" if cuda else "fp32", tokens=2048 if layers is None else 32, layers=layers,
                    device=device.type, timing="device" if cuda else "host")
    )  # fmt: skip
    return Case(session.step, None, session.close)


CASES: dict[str, Callable[[Any], Case]] = {"product": product, "copy": copy, "decode": decode, "prefill": prefill}


def replayed_ms(replay: Callable[[], object], rewind: Callable[[], object], device: Any) -> float:
    """Plain timing of a recording: many replays between two events, best of five."""
    import torch

    best = float("inf")
    for _ in range(5):
        rewind()
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(50):  # within the cache's room
            replay()
        last.record()
        last.synchronize()
        best = min(best, first.elapsed_time(last) / 50)
    return best


def cache_of(device: Any) -> Any:
    """What is written to empty the device's caches."""
    import torch

    return torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device=device)


def flushed_ms(
    step: Callable[[int], object], flush: Callable[[], object], device: Any, seconds: float, skip_s: float,
    clock: Any = None,
) -> float:  # fmt: skip
    """Median step with a flush before each, as do_bench does it; flushes are steps of their own, and left out."""

    def in_turn(index: int) -> object:
        return step(index // 2) if index % 2 else flush()

    rows = drive_for(in_turn, device, seconds, clock)
    took = rows.seconds
    busy_s = np.cumsum(took)
    work = np.arange(len(took)) % 2 == 1
    kept = took[work & (busy_s > skip_s)]
    return float(np.median(kept if len(kept) else took[work])) * 1e3


def judge(found: dict[str, Any]) -> bool:
    """Whether every pair in the same state agrees."""
    return all(abs(found[name]["apart"]) <= BAR for name in JUDGED if name in found)


def measure(name: str, case: Case, device: Any, seconds: float) -> dict[str, Any]:
    """Both states by both instruments."""
    from triton.testing import do_bench

    burst_s = max(BURST_S, FEWEST_STEPS * median_ms(drive_for(case.step, device, 0.3), 0.1) / 1e3)
    rest(REST_S)
    theirs_burst = float(do_bench(case.bare, warmup=25, rep=int(burst_s * 1e3), return_mode="median"))
    rest(REST_S)
    # Flushes take part of the time: twice as long holds as many steps.
    ours_burst = flushed_ms(case.step, cache_of(device).zero_, device, 2 * (BURST_WARM_S + burst_s), BURST_WARM_S)
    rest(REST_S)
    rows = drive_for(case.step, device, BURST_WARM_S + burst_s)
    ours_unbroken = median_ms(rows, BURST_WARM_S)
    rows = drive_for(case.step, device, seconds)
    ours_sustained = median_ms(rows, seconds / 2)
    in_stretch = max(1, int(STRETCH_S * 1e3 / ours_sustained))
    counter = iter(range(10**9))

    def stretch() -> None:
        for _ in range(in_stretch):
            case.step(next(counter))

    theirs_sustained = float(do_bench(stretch, warmup=300, rep=1500, return_mode="median")) / in_stretch
    found: dict[str, Any] = {
        "burst": {"lynxbench_ms": ours_burst, "do_bench_ms": theirs_burst, "apart": ours_burst / theirs_burst - 1},
        "burst_without_flush": {
            "lynxbench_ms": ours_unbroken,
            "apart": ours_unbroken / theirs_burst - 1,
            "judged": False,
            "why": "steps follow each other: no flush in which a power-capped device recovers, and warm caches",
        },
        "sustained": {
            "lynxbench_ms": ours_sustained,
            "do_bench_ms": theirs_sustained,
            "apart": ours_sustained / theirs_sustained - 1,
            "steps_in_a_stretch": in_stretch,
        },
        "sustained_over_burst": ours_sustained / ours_burst,
    }
    if case.replay is not None:
        work = case.step.__self__._work  # type: ignore[attr-defined]
        plain = replayed_ms(case.replay, work._rewind, device)
        work._rewind()
        found["graph_replay"] = {"plain_ms": plain, "apart": ours_sustained / plain - 1}
    found["agrees"] = judge(found)
    return found


def main() -> int:
    """Measure the cases and print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=sorted(CASES), action="append")
    parser.add_argument("--seconds", type=float, default=6.0, help="of sustained load before its figure")
    chosen = parser.parse_args()
    device = find_device()
    import torch

    found: dict[str, Any] = {}
    began = time.perf_counter()
    for name in chosen.case or CASES:
        try:
            case = CASES[name](device)
            found[name] = measure(name, case, device, chosen.seconds)
            case.close()
            del case
        except Exception as error:  # one case that fails must not cost the others their time on the device
            found[name] = {"agrees": False, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
        torch.cuda.empty_cache()
    document = {
        "benchmark": "gpu_agreement",
        **describe(device),
        "bar": BAR,
        "seconds": round(time.perf_counter() - began, 1),
        "cases": found,
        "pass": all(one["agrees"] for one in found.values()),
    }
    return finish(document)


if __name__ == "__main__":
    raise SystemExit(main())
