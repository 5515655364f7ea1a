"""lynxbench's step times beside triton's do_bench and plain CUDA-graph replay, burst and sustained, on one GPU.

    PYTHONPATH=src python benchmarks/gpu_agreement.py [--case NAME] [--seconds 6]

Burst: the first steps after a rest, before a power cap can act, with the same flush of the cache before every step, by
both over as many steps, in pairs whose order turns. Sustained: after seconds of the same load, with do_bench timing a
stretch of back-to-back steps. These two are judged, for a recorded step also against its plain replay. The course of
our own steps from the rest on is shown beside them: where it moves, a median over the move is nobody's figure. Exit 1
where a judged figure is more than 1 % off do_bench's median in the same state; 4 without a CUDA device.
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
BURST_WARM_S, BURST_S = 0.001, 0.02
"""With do_bench's own first steps about 30 ms: on a power-capped device the first move comes after 30 to 80."""
FEWEST_STEPS = 10
"""A burst of long steps holds so many, however long that takes."""
COURSE_S, COURSE_PARTS = 0.3, 15
ESTIMATING = 5
"""Steps that do_bench runs before its warm-up, to know how many make up its time."""
PAIRS = 4
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
    """A step that both instruments queue."""

    step: Callable[[int], object]
    replay: Callable[[], object] | None = None
    """The bare recording of the step, where it is one."""
    close: Callable[[], object] = lambda: None


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


def flushed(
    step: Callable[[int], object], flush: Callable[[], object], device: Any, first: int, count: int, seconds: float,
    clock: Any = None,
) -> Any:  # fmt: skip
    """`count` steps in ms after the `first`, with a flush before each as do_bench does it; flushes are left out."""

    def in_turn(index: int) -> object:
        return step(index // 2) if index % 2 else flush()

    took = drive_for(in_turn, device, seconds, clock).seconds[1::2] * 1e3
    return took[first : first + count]


def burst(case: Case, device: Any) -> dict[str, Any]:
    """Both instruments on a rested device, in pairs: the one that begins changes from pair to pair."""
    from triton.testing import do_bench

    estimate_ms = median_ms(drive_for(case.step, device, 0.3), 0.1)
    count = max(FEWEST_STEPS, round(BURST_S * 1e3 / estimate_ms))
    first = max(1, round(BURST_WARM_S * 1e3 / estimate_ms)) + ESTIMATING
    # More than the steps' own time: flushes take part of it.
    seconds = 1.5 * (first + count) * estimate_ms / 1e3
    cache = cache_of(device)
    counter = iter(range(10**9))

    def theirs() -> Any:
        warm, rep = BURST_WARM_S * 1e3, count * estimate_ms
        return np.array(do_bench(lambda: case.step(next(counter)), warmup=warm, rep=rep, return_mode="all"))

    def ours() -> Any:
        return flushed(case.step, cache.zero_, device, first, count, seconds)

    theirs()  # its first call estimates with what is loaded on first use, and takes fewer steps
    found: dict[str, list[Any]] = {"do_bench": [], "lynxbench": []}
    turns = [("do_bench", theirs), ("lynxbench", ours)]
    for number in range(PAIRS):
        for name, take in turns if number % 2 == 0 else turns[::-1]:
            rest(REST_S)
            found[name].append(take())
    medians = {name: [float(np.median(one)) for one in series] for name, series in found.items()}
    both = {name: float(np.median(np.concatenate(series))) for name, series in found.items()}
    return {
        "lynxbench_ms": both["lynxbench"],
        "do_bench_ms": both["do_bench"],
        "apart": both["lynxbench"] / both["do_bench"] - 1,
        "each_ms": medians,
        "steps": {name: sum(map(len, series)) for name, series in found.items()},
    }


def course(seconds: Any) -> list[float]:
    """Medians of equal parts of a series, in ms."""
    parts = np.array_split(seconds, min(COURSE_PARTS, len(seconds)))
    return [round(float(np.median(part)) * 1e3, 4) for part in parts]


def judge(found: dict[str, Any]) -> bool:
    """Whether every pair in the same state agrees."""
    return all(abs(found[name]["apart"]) <= BAR for name in JUDGED if name in found)


def measure(name: str, case: Case, device: Any, seconds: float) -> dict[str, Any]:
    """Both states by both instruments."""
    from triton.testing import do_bench

    in_bursts = burst(case, device)
    rest(REST_S)
    on_and_on = course(drive_for(case.step, device, COURSE_S).seconds)
    rows = drive_for(case.step, device, seconds)
    ours_sustained = median_ms(rows, seconds / 2)
    in_stretch = max(1, int(STRETCH_S * 1e3 / ours_sustained))
    counter = iter(range(10**9))

    def stretch() -> None:
        for _ in range(in_stretch):
            case.step(next(counter))

    theirs_sustained = float(do_bench(stretch, warmup=300, rep=1500, return_mode="median")) / in_stretch
    found: dict[str, Any] = {
        "burst": in_bursts,
        "course_after_rest_ms": on_and_on,
        "sustained": {
            "lynxbench_ms": ours_sustained,
            "do_bench_ms": theirs_sustained,
            "apart": ours_sustained / theirs_sustained - 1,
            "steps_in_a_stretch": in_stretch,
        },
        "sustained_over_burst": ours_sustained / in_bursts["lynxbench_ms"],
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
