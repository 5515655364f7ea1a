from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.attribute.attributing import attribute_trace
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.interval import Interval
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def owner(layer: Layer) -> str:
    return f"team {layer.value}"


def attribute(
    path: Path,
    ceilings: tuple[Ceiling, ...],
    step_ms: Interval | float | None = None,
    precision: Precision = Precision.FP32,
) -> Attribution:
    said = attribute_trace(path, ceilings=ceilings, precision=precision, unprofiled_step_ms=step_ms, owner=owner)
    assert sum(said.shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert said.gain_if_removed.low <= said.gain_if_removed.estimate <= said.gain_if_removed.high
    assert said.gain_if_removed.low >= 1.0
    assert Attribution.model_validate_json(said.model_dump_json()) == said
    return said


def steps(
    make_event: Make, fill: Callable[[float], list[dict[str, Any]]], ms: float, count: int = 5
) -> list[dict[str, Any]]:
    events = []
    for i in range(count):
        at = i * (ms * 1000 + 50)
        events += [make_event(f"step#{i}", at, ms * 1000, cat="user_annotation"), *fill(at)]
    return events


def products(
    make_event: Make, make_operands: Make, took_us: float, n: int = 1000
) -> Callable[[float], list[dict[str, Any]]]:
    return lambda at: [make_event("aten::mm", at + 20, took_us, **make_operands((n, n), (n, n)))]


def test_near_the_ceiling_is_hardware_bound(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    # 2e9 operations at 100e9/s: 20 ms attainable, 25 ms taken.
    path = write_trace(steps(make_event, products(make_event, make_operands, 25_000), 25.1))
    said = attribute(path, ceilings, 25.0)
    assert (said.bottleneck, said.bound, said.layer) == (Category.COMPUTE, Bound.HARDWARE, Layer.ACCELERATOR)
    assert said.owner == "team accelerator"
    assert not said.weak
    assert said.sentence.startswith("hardware-bound: arithmetic takes")
    assert said.gain_if_removed.high == pytest.approx(1.25, rel=0.02)
    assert any("80 GFLOP/s of 100 measured: 80%" in line for line in said.evidence)
    assert any(line.startswith("assumption 1, compute-bound: holds") for line in said.evidence)
    assert said.operators[0].efficiency == pytest.approx(0.8, rel=0.01)


def test_far_below_the_ceiling_is_software_bound(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    path = write_trace(steps(make_event, products(make_event, make_operands, 200_000), 201.0))
    said = attribute(path, ceilings, 201.0)
    assert (said.bottleneck, said.bound, said.layer) == (Category.COMPUTE, Bound.SOFTWARE, Layer.RUNTIME)
    assert said.symptom_layer is Layer.ACCELERATOR
    assert 6 < said.gain_if_removed.estimate < said.gain_if_removed.high < 10.1
    assert Layer.SYSTEM in {candidate.layer for candidate in said.candidates}


def test_between_the_two_nothing_is_claimed(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    path = write_trace(steps(make_event, products(make_event, make_operands, 42_000), 42.1))
    said = attribute(path, ceilings, 42.0)
    assert (said.bottleneck, said.bound, said.owner) == (Category.COMPUTE, Bound.UNDETERMINED, None)
    assert "neither near it nor far below" in said.sentence


def test_one_row_of_a_product_is_memory_bound(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    # 64 MB of weights, and half of a copy at 20 GB/s is reading: 6.4 ms.
    fill = lambda at: [make_event("aten::mm", at + 20, 7_600, **make_operands((1, 4000), (4000, 4000)))]  # noqa: E731
    said = attribute(write_trace(steps(make_event, fill, 7.8)), ceilings, 7.8)
    assert (said.bottleneck, said.bound) == (Category.MEMORY_BANDWIDTH, Bound.HARDWARE)
    assert any("GB/s of 10 measured" in line for line in said.evidence)
    assert any(line.startswith("assumption 3, data movement keeps up: broken") for line in said.evidence)


def test_cache_resident_operands_beat_the_ceiling_and_it_is_said(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    fill = lambda at: [make_event("aten::mm", at + 20, 1_000, **make_operands((1, 4000), (4000, 4000)))]  # noqa: E731
    path = write_trace(steps(make_event, fill, 1.1))
    said = attribute(path, ceilings, 1.1)
    assert (said.bottleneck, said.bound, said.owner) == (Category.MEMORY_BANDWIDTH, Bound.UNDETERMINED, None)
    assert "its operands lie in caches" in said.sentence
    assert any("beats the ceiling" in line for line in said.evidence)
    assert said.operators[0].efficiency is not None
    assert said.operators[0].efficiency > 3
    assert attribute_by(14, path, ceilings, 1.1).bound is Bound.HARDWARE


def test_without_shapes_or_ceilings_the_bound_stays_open(write_trace: Write, make_event: Make) -> None:
    fill = lambda at: [make_event("aten::mm", at + 20, 9_000)]  # noqa: E731
    said = attribute(write_trace(steps(make_event, fill, 10.0)), ())
    assert (said.bottleneck, said.bound, said.owner) == (Category.COMPUTE, Bound.UNDETERMINED, None)
    assert "missing" in said.sentence


def small_operators(
    make_event: Make, make_operands: Make, count: int, every_us: float
) -> Callable[[float], list[dict[str, Any]]]:
    shape = make_operands((1, 64), (1, 64))
    return lambda at: [make_event("aten::add", at + 5 + i * every_us, every_us / 2, **shape) for i in range(count)]


def test_tiny_operators_are_launch_and_the_profiler_is_taken_out(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    def fill(at: float) -> list[dict[str, Any]]:
        big = make_event("aten::mm", at + 6_100, 3_800, **make_operands((1, 4000), (4000, 4000)))
        return [*small_operators(make_event, make_operands, 300, 20.0)(at), big]

    path = write_trace(steps(make_event, fill, 10.0))
    bare, unknown, corrected = (
        attribute(path, ceilings, 10.0),
        attribute(path, ceilings),
        attribute(path, ceilings, 8.0),
    )
    assert bare.bottleneck is Category.LAUNCH
    assert (bare.bound, bare.layer, bare.symptom_layer) == (Bound.SOFTWARE, Layer.RUNTIME, Layer.SYSTEM)
    assert bare.shares[Category.LAUNCH] == pytest.approx(0.62, abs=0.005)
    assert corrected.shares[Category.LAUNCH] == pytest.approx(4.2 / 8.0, abs=0.005)
    assert corrected.shares[Category.LAUNCH] < unknown.shares[Category.LAUNCH] < bare.shares[Category.LAUNCH]
    assert any("matters" in line for line in corrected.evidence)
    assert "–" in unknown.sentence
    assert any("not known" in line for line in unknown.evidence)
    assert corrected.unprofiled_ms_per_step == 8.0
    assert corrected.gain_if_removed.estimate < 8.0 / 3.8


def test_level_categories_are_weak(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    def fill(at: float) -> list[dict[str, Any]]:
        return [
            make_event("aten::mm", at + 20, 22_000, **make_operands((1000, 1000), (1000, 1000))),
            make_event("aten::sum", at + 22_050, 20_000, **make_operands((50, 1000, 1000))),
        ]

    said = attribute(write_trace(steps(make_event, fill, 42.2)), ceilings, 42.0)
    assert said.weak
    assert said.bound is Bound.HARDWARE
    assert "level with memory_bandwidth" in said.sentence


@pytest.mark.parametrize(("bare_ms", "weak"), [(42.5, False), (40.0, False), (20.0, True)])
def test_a_machine_that_was_slower_while_it_was_profiled_weakens_the_verdict(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...], bare_ms: float, weak: bool
) -> None:
    shape = make_operands((10_000_000,))
    fill = lambda at: [make_event("aten::tanh", at + 10 + i * 4_300, 4_200, **shape) for i in range(10)]  # noqa: E731
    path = write_trace(steps(make_event, fill, 43.1))
    said, older = attribute(path, ceilings, bare_ms), attribute_by(14, path, ceilings, bare_ms)
    assert (said.bound, said.weak) == (Bound.SOFTWARE, weak)
    assert ("far longer while it was profiled" in said.sentence) is weak
    assert "no category dominates" not in said.sentence
    assert not older.weak


def test_chains_of_passes_call_for_fusion(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    # 10 passes over 40 MB, read and written: 4 ms each at the ceiling; fused, one pass remains.
    shape = make_operands((10_000_000,))
    fill = lambda at: [make_event("aten::tanh", at + 10 + i * 4_300, 4_200, **shape) for i in range(10)]  # noqa: E731
    path = write_trace(steps(make_event, fill, 43.1))
    said = attribute(path, ceilings, 43.0)
    assert (said.bottleneck, said.bound, said.layer) == (Category.MEMORY_BANDWIDTH, Bound.SOFTWARE, Layer.RUNTIME)
    assert "fuse" in said.next_step
    assert said.gain_if_removed.estimate == pytest.approx(10, rel=0.25)
    assert any(
        line.endswith("layer runtime: most of what the passes move are intermediate results") for line in said.evidence
    )
    assert [one.reason for one in said.candidates if one.layer is Layer.RUNTIME] == [
        "most of what the passes move are intermediate results"
    ]
    older = attribute_by(14, path, ceilings, 43.0)
    assert any("each pass runs near the memory ceiling" in line for line in older.evidence)


def cached_token(
    make_event: Make, make_operands: Make, copy_us: float, product_us: float
) -> Callable[[float], list[dict[str, Any]]]:
    """80 MB read and written, then a product that uses them."""
    return lambda at: [
        make_event("aten::cat", at + 20, copy_us, **make_operands((10_000_000,), (10_000_000,))),
        make_event("aten::mm", at + 40 + copy_us, product_us, **make_operands((1000, 1000), (1000, 1000))),
    ]


def test_copies_are_softwares_however_near_the_ceiling(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    path = write_trace(steps(make_event, cached_token(make_event, make_operands, 80_000, 22_000), 102.1))
    said = attribute(path, ceilings, 102.1)
    assert (said.bottleneck, said.bound, said.layer) == (
        Category.MEMORY_BANDWIDTH,
        Bound.SOFTWARE,
        Layer.APPLICATION,
    )
    assert "only to copy what was in memory before" in said.sentence
    assert said.gain_if_removed.low < 102 / 22 < said.gain_if_removed.high


def test_a_step_that_only_copies_is_taken_at_its_word(
    write_trace: Write, make_event: Make, make_operands: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    fill = lambda at: cached_token(make_event, make_operands, 8_000, 1)(at)[:1]  # noqa: E731
    said = attribute(write_trace(steps(make_event, fill, 8.1)), ceilings, 8.1)
    assert (said.bottleneck, said.bound) == (Category.MEMORY_BANDWIDTH, Bound.HARDWARE)


@pytest.mark.parametrize(
    ("dtype", "precision", "bound"),
    [
        ("double", Precision.FP32, Bound.SOFTWARE),
        ("double", Precision.BF16, Bound.SOFTWARE),
        ("float", Precision.BF16, Bound.SOFTWARE),
        ("float", Precision.FP32, Bound.HARDWARE),
        ("c10::BFloat16", Precision.BF16, Bound.HARDWARE),
    ],
)
def test_formats_wider_than_the_contracts_are_softwares(
    write_trace: Write, make_event: Make, make_operands: Make, dtype: str, precision: Precision, bound: Bound
) -> None:
    rates = {None: 20e9, Precision.FP32: 100e9, Precision.BF16: 800e9}
    measured = (
        *(Ceiling(name="matmul", precision=p, per_s=r, unit="FLOP/s", how="here") for p, r in rates.items()),
        Ceiling(name="copy", precision=None, per_s=20e9, unit="B/s", how="here"),
    )
    own = rates[None if dtype == "double" else Precision.FP32 if dtype == "float" else Precision.BF16]
    took_ms = 2.0 * 4000**3 / own * 1e3 / 0.9
    fill = lambda at: [  # noqa: E731
        make_event("aten::mm", at + 20, took_ms * 1e3, **make_operands((4000, 4000), (4000, 4000), dtype=dtype))
    ]
    said = attribute(write_trace(steps(make_event, fill, took_ms + 0.1)), measured, took_ms + 0.1, precision)
    assert (said.bottleneck, said.bound) == (Category.COMPUTE, bound)
    if bound is Bound.SOFTWARE:
        assert said.layer is Layer.APPLICATION
        assert said.gain_if_removed.low < rates[precision] / own < said.gain_if_removed.high * 1.2


def test_custom_operators_are_shown_as_the_remainder(
    write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]
) -> None:
    fill = lambda at: [make_event("mylib::magic", at + 20, 9_000)]  # noqa: E731
    said = attribute(write_trace(steps(make_event, fill, 10.0)), ceilings, 10.0)
    assert (said.bottleneck, said.bound, said.weak) == (Category.UNATTRIBUTED, Bound.UNDETERMINED, True)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.9)


def test_input_wait_names_the_application(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> None:
    fill = lambda at: [make_event("aten::add", at + 6_000, 4_000)]  # noqa: E731
    said = attribute(write_trace(steps(make_event, fill, 10.0)), ceilings, Interval(9.9, 10.0, 10.1))
    assert (said.bottleneck, said.bound, said.layer) == (Category.INPUT, Bound.SOFTWARE, Layer.APPLICATION)
    assert said.gain_if_removed.estimate == pytest.approx(2.5, rel=0.02)
    assert any("before its first operator" in line for line in said.evidence)


def test_default_owners_fit(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> None:
    fill = lambda at: [make_event("aten::add", at + 6_000, 4_000)]  # noqa: E731
    path = write_trace(steps(make_event, fill, 10.0))
    said = attribute_trace(
        path, ceilings=ceilings, precision=Precision.FP32, unprofiled_step_ms=None, owner=DEFAULT_OWNERS.__getitem__
    )
    assert said.owner == DEFAULT_OWNERS[Layer.APPLICATION]
    assert dataclasses.is_dataclass(said.gain_if_removed)
