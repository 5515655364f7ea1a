"""Ranks of one run side by side: the pace, the straggler, the exposed communication."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.attributing import TraceSettings
from lynxbench.attribute.rank_traces import analyse_ranks, find_traces
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def rank_events(make_event: Make, work_us: float, step_us: float = 1_000.0) -> list[dict[str, Any]]:
    """Steps in which a kernel works and a collective waits for the rest of the step."""
    events = []
    for i in range(6):
        at = i * step_us
        events.append(make_event(f"step#{i}", at, step_us - 1, cat="user_annotation"))
        for k, (name, start, took) in enumerate(
            (("gemm", 10.0, work_us), ("ncclDevKernel_AllReduce", 10.0 + work_us, step_us - 12 - work_us))
        ):
            number = 10 * i + k + 1
            events.append(make_event("cudaLaunchKernel", at + 2 + k, 1.0, cat="cuda_runtime", correlation=number))
            events.append(make_event(name, at + start, took, cat="kernel", tid=7, stream=7, correlation=number))
    return events


def test_the_straggler_is_the_one_that_does_not_wait(write_trace: Write, make_event: Make) -> None:
    works = [500.0, 510.0, 800.0, 505.0]
    paths = [
        write_trace(rank_events(make_event, work), f"rank{i}.json", distributedInfo={"rank": i})
        for i, work in enumerate(works)
    ]
    report = analyse_ranks(find_traces([paths[0].parent]), TraceSettings())
    assert [rank.number for rank in report.ranks] == [0, 1, 2, 3]
    assert (report.straggler, report.pacing) == (2, 2)
    assert report.ranks[0].exposed_ms > report.ranks[2].exposed_ms
    assert any("rank 2 straggles" in line for line in report.lines)
    assert report.ranks[0].analysis is not None
    assert report.ranks[0].analysis.attribution.shares[Category.COMMUNICATION] == pytest.approx(0.49, abs=0.02)


def test_communication_behind_kernels_is_not_exposed(write_trace: Write, make_event: Make) -> None:
    """The same collective, once after the product and once beside it on another stream."""
    paths = []
    for number, beside in enumerate((False, True)):
        events = []
        for i in range(6):
            at = i * 1_000.0
            events.append(make_event(f"step#{i}", at, 999.0, cat="user_annotation"))
            begin = 110.0 if beside else 610.0
            for k, (name, start, took, stream) in enumerate(
                (("gemm", 10.0, 600.0, 7), ("ncclDevKernel_AllReduce", begin, 300.0, 20))
            ):
                link = 10 * i + k + 1
                events.append(make_event("cudaLaunchKernel", at + 2 + k, 1.0, cat="cuda_runtime", correlation=link))
                events.append(
                    make_event(name, at + start, took, cat="kernel", tid=stream, stream=stream, correlation=link)
                )
        paths.append(write_trace(events, f"rank{number}.json", distributedInfo={"rank": number}))
    exposed, hidden = analyse_ranks(paths, TraceSettings()).ranks
    assert exposed.exposed_ms == pytest.approx(0.3, rel=0.02)
    assert hidden.exposed_ms == pytest.approx(0.0, abs=1e-6)
    assert hidden.analysis is not None
    (collectives,) = hidden.analysis.detail.movements
    assert collectives.name == "collectives"
    assert collectives.ms_per_step == pytest.approx(0.3, rel=0.02)
    assert collectives.exposed_ms_per_step == pytest.approx(0.0, abs=1e-6)


def test_equal_ranks_have_no_straggler_and_a_bad_one_is_named(write_trace: Write, make_event: Make) -> None:
    paths = [write_trace(rank_events(make_event, 500.0), f"trace_{i}.json") for i in (4, 5)]
    broken = paths[0].parent / "trace_6.json"
    broken.write_text("no trace")
    report = analyse_ranks([*paths, broken], TraceSettings())
    assert report.straggler is None
    assert [rank.number for rank in report.ranks] == [4, 5, 6]
    assert any("rank 6 could not be read" in line for line in report.lines)
    assert any("no rank straggles" in line for line in report.lines)


def test_one_file_is_a_run_of_one(write_trace: Write, make_event: Make) -> None:
    report = analyse_ranks([write_trace(rank_events(make_event, 500.0))], TraceSettings())
    assert len(report.ranks) == 1
    assert report.lines == ()


def test_folders_without_traces_and_unreadable_ranks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no traces"):
        find_traces([tmp_path])
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(BadInput, match="none of 2 traces"):
        analyse_ranks(find_traces([tmp_path]), TraceSettings())
