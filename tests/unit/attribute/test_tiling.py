from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.judge.time_book import TimeBook, keep_book
from lynxbench.attribute.read.kineto import read_trace
from lynxbench.attribute.tile.host_tiles import tile_host
from lynxbench.attribute.tile.steps import find_steps
from lynxbench.attribute.tile.tiling import tile_trace
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.precision import Precision

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def book_of(path: Path, ceilings: tuple[Ceiling, ...]) -> TimeBook:
    return keep_book(tile_trace(read_trace(path)), Ceilings(ceilings, Precision.FP32))


def test_every_nanosecond_has_one_owner(write_trace: Write, make_event: Make) -> None:
    events = [
        make_event("step#0", 0.0, 100.0, cat="user_annotation"),
        make_event("aten::linear", 10.0, 50.0),
        make_event("aten::t", 12.0, 5.0),
        make_event("aten::addmm", 20.0, 35.0),
        make_event("aten::expand", 21.0, 4.0),
        make_event("aten::add", 70.0, 10.0),
    ]
    trace = read_trace(write_trace(events))
    steps = find_steps(trace)
    stretches, _ = tile_host(trace, steps)
    assert stretches.fill(steps)
    own: dict[str, int] = {}
    for row, dur in zip(stretches.row.tolist(), stretches.dur_ns.tolist(), strict=True):
        name = trace.names[trace.name[row]]
        own[name] = own.get(name, 0) + dur
    assert own == {
        "step#0": 40_000,
        "aten::linear": 10_000,
        "aten::t": 5_000,
        "aten::addmm": 31_000,
        "aten::expand": 4_000,
        "aten::add": 10_000,
    }


def test_backward_on_another_thread_takes_the_waiting_time(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    big = make_operands((1024, 1024), (1024, 1024))
    events = [
        make_event("step#0", 0.0, 100_000.0, cat="user_annotation"),
        make_event("aten::mm", 0.0, 30_000.0, **big),
        make_event("autograd::engine::evaluate_function: MmBackward0", 31_000.0, 60_000.0, tid=2),
        make_event("aten::mm", 31_500.0, 59_000.0, tid=2, **big),
        make_event("aten::add", 95_000.0, 5_000.0, **make_operands((1024, 1024), (1024, 1024))),
    ]
    book = book_of(write_trace(events), ceilings)
    assert book.of(Category.COMPUTE).tolist() == [89_000_000]
    assert book.of(Category.MEMORY_BANDWIDTH).tolist() == [5_000_000]
    assert int(book.spent_ns.sum()) == 100_000_000


def test_worker_threads_add_no_wall_time(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    big = make_operands((1024, 1024), (1024, 1024))
    events = [make_event("step#0", 0.0, 1000.0, cat="user_annotation"), make_event("aten::mm", 0.0, 900.0, **big)]
    events += [make_event("aten::mm", 0.0, 1000.0, tid=thread, **big) for thread in (5, 6, 7)]
    book = book_of(write_trace(events), ceilings)
    assert book.wall_ns.tolist() == [1_000_000]
    assert book.of(Category.COMPUTE).tolist() == [900_000]


def test_input_ranges_and_silent_waits(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> None:
    events = []
    for i in range(3):
        at = i * 100_000.0
        events += [
            make_event(f"step#{i}", at, 100_000.0, cat="user_annotation"),
            make_event("aten::add", at + 40_000, 20_000.0),
            make_event("prepare_input", at + 70_000, 10_000.0, cat="user_annotation"),
            make_event("aten::randn", at + 71_000, 5_000.0),
            make_event("aten::add", at + 80_010, 19_990.0),
        ]
    book = book_of(write_trace(events), ceilings)
    assert book.of(Category.INPUT).tolist() == [50_000_000, 50_000_000]
    assert book.tiling.gaps.leading_ns == 40_000_000


def test_gaps_between_allocations_are_the_allocators(
    write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    events = [make_event("step#0", 0.0, 1000.0, cat="user_annotation")]
    events += [make_event("aten::empty", 10.0 * i, 4.0) for i in range(100)]
    book = book_of(write_trace(events), ceilings)
    assert book.of(Category.ALLOCATOR).tolist() == [1_000_000 - 6_000]


def test_long_pauses_inside_a_step_are_not_dispatch(
    write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    events = [make_event("step#0", 0.0, 60_000.0, cat="user_annotation")]
    events += [make_event("aten::relu", 20.0 * i, 10.0) for i in range(500)]
    events += [make_event("aten::relu", 50_000.0 + 20.0 * i, 10.0) for i in range(500)]
    book = book_of(write_trace(events), ceilings)
    assert book.of(Category.IDLE).tolist() == [(50_000 - 9_990) * 1000]
    assert book.of(Category.LAUNCH).tolist() == [60_000_000 - 40_010_000]


def test_a_call_that_lost_its_core_is_idle_not_work(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    shape = make_operands((512, 512), (512, 512))
    events = [make_event("step#0", 0.0, 60_000.0, cat="user_annotation")]
    took = [200.0] * 20 + [30_000.0] + [200.0] * 20
    at = 10.0
    for duration in took:
        events.append(make_event("aten::add", at, duration, **shape))
        at += duration + 10
    book = book_of(write_trace(events), ceilings)
    assert book.of(Category.IDLE).tolist()[0] >= 29_800_000
    assert book.of(Category.MEMORY_BANDWIDTH).tolist() == [41 * 200_000]
    assert book.stalled_ns == 29_800_000
    assert int(book.spent_ns.sum()) == 60_000_000


def test_misnested_events_are_counted_and_time_still_conserved(
    write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    events = [
        make_event("step#0", 0.0, 100.0, cat="user_annotation"),
        make_event("aten::linear", 10.0, 30.0),
        make_event("aten::add", 30.0, 40.0),
        make_event("aten::mul", 60.0, 90.0),
    ]
    book = book_of(write_trace(events), ceilings)
    assert book.tiling.misnested >= 2
    assert int(book.spent_ns.sum()) == 100_000
