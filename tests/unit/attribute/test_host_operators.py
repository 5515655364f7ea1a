"""Operators that work on the host's own memory beside a device: host work, however short, and never dispatch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]
Judge = Callable[..., Attribution]
PICTURE = {"Input Dims": [[3, 200, 200]], "Input type": ["float"]}
"""Half a megabyte."""
STEP_US = 4000.0


@pytest.fixture
def judge(write_trace: Write, make_event: Make, ceilings: tuple[Ceiling, ...]) -> Judge:
    """Steps: copies to the host, 30 operators of 100 µs beside the device, then one kernel of 300 µs."""

    def judged(
        name: str = "aten::upsample_bilinear2d",
        *,
        rules: int = 11,
        fetched_bytes: int = 0,
        call: str | None = None,
        recorded: dict[str, Any] = PICTURE,
        lasts: float = 98.0,
        runtime: bool = True,
        linked: bool = False,
    ) -> Attribution:
        events, number = [], 0
        for step in range(6):
            at, number = step * STEP_US, number + 2
            events.append(make_event(f"step#{step}", at, STEP_US - 5.0, cat="user_annotation"))
            if fetched_bytes:
                ids = {"correlation": number, "External id": number}
                events += [
                    make_event("aten::copy_", at, 60.0, **{"External id": number}),
                    make_event("cudaMemcpyAsync", at + 2, 55.0, cat="cuda_runtime", **ids),
                    make_event(
                        "Memcpy DtoH (Device -> Pageable)", at + 5, 50.0, cat="gpu_memcpy", tid=7, bytes=fetched_bytes,
                        **ids,
                    ),
                ]  # fmt: skip
            for turn in range(30):
                begin = at + 100.0 + turn * 100.0
                mine = {"External id": 1000 + 100 * step + turn} if linked else {}
                events.append(make_event(name, begin, lasts, **recorded, **mine))
                if linked:
                    events.append(make_event("its_kernel", begin + 5, 2.0, cat="kernel", tid=7, stream=7, **mine))
                if call is not None:
                    events.append(make_event(call, begin + 1, 5.0, cat="cuda_runtime"))
            ids = {"correlation": number + 1, "External id": number + 1}
            events.append(make_event("aten::relu", at + 3110.0, 20.0, **{"External id": number + 1}))
            if runtime:
                events.append(make_event("cudaLaunchKernel", at + 3115.0, 10.0, cat="cuda_runtime", **ids))
            events.append(make_event("relu_kernel", at + 3130.0, 300.0, cat="kernel", tid=7, stream=7, **ids))
        return attribute_by(rules, write_trace(events), ceilings, STEP_US / 1e3)

    return judged


def test_work_ahead_of_the_devices_is_input_and_not_dispatch(judge: Judge) -> None:
    """3 ms of 4 go to pictures; each is done in a tenth of a millisecond."""
    said = judge()
    assert (said.bottleneck, said.bound) == (Category.INPUT, Bound.SOFTWARE)
    assert said.shares[Category.INPUT] >= 0.7
    assert any("start nothing on the device: aten::upsample_bilinear2d" in line for line in said.evidence)
    before = judge(rules=10)
    assert before.bottleneck is Category.LAUNCH, "earlier results are recomputed by their rules"
    assert not any("start nothing" in line for line in before.evidence)


def test_work_on_what_was_fetched_is_the_transfers(judge: Judge) -> None:
    said = judge("aten::lerp_", fetched_bytes=8 << 20)
    assert said.bottleneck is Category.TRANSFER
    assert said.gain_if_removed.high >= STEP_US / 400.0


@pytest.mark.parametrize(
    "planted",
    [
        pytest.param({"call": "cudaLaunchKernel"}, id="they launch"),
        pytest.param({"call": "cudaMemcpyAsync"}, id="they copy"),
        pytest.param({"linked": True}, id="kernels bear their numbers, and the calls are lost"),
        pytest.param({"recorded": {"Input Dims": [[1]], "Input type": ["float"]}}, id="on a scalar"),
        pytest.param({"recorded": {}}, id="on operands that nobody recorded"),
        pytest.param({"name": "aten::view"}, id="views"),
        pytest.param({"name": "aten::empty"}, id="allocations"),
        pytest.param(
            {"recorded": {"Input Dims": [[40000, 40000]], "Input type": ["float"]}}, id="faster than any memory"
        ),
        pytest.param({"runtime": False}, id="in a trace without the device's calls"),
    ],
)
def test_what_may_be_dispatch_stays_dispatch(judge: Judge, planted: dict[str, Any]) -> None:
    said, before = judge(**planted), judge(**planted, rules=10)
    assert not any("start nothing on the device" in line for line in said.evidence)
    assert said.shares == before.shares


def test_what_a_step_spends_is_conserved(judge: Judge) -> None:
    assert sum(judge().shares.values()) == pytest.approx(1.0)
    assert sum(judge(fetched_bytes=8 << 20).shares.values()) == pytest.approx(1.0)
