"""JAX and XLA traces in the form that TensorBoard's profiler writes, with known truth: GPU, TPU and CPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from attributed import analyse, attribute, is_doubted, is_open, refusal, took
from lynxbench.attribute.attributing import TraceSettings, analyse_trace
from lynxbench.model.attribution import Category

Events = list[dict[str, Any]]
GPU, TPU, HOST = 1, 3, 701


def named(pid: int, process: str, threads: dict[int, str]) -> Events:
    about = [("process_name", {"name": process}), ("process_sort_index", {"sort_index": pid})]
    events: Events = [{"ph": "M", "pid": pid, "name": name, "args": args} for name, args in about]
    for tid, thread in threads.items():
        events.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": thread}})
    return events


def timed(pid: int, tid: int, name: str, ts: float, dur: float, **args: str) -> dict[str, Any]:
    """Every argument is text, as the writer has it."""
    event: dict[str, Any] = {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name}
    return {**event, "args": args} if args else event


def gpu(steps: int = 6) -> Events:
    """Each step of a millisecond: 600 µs product, 200 µs copy, 100 µs collective, 100 µs nothing."""
    lines = {13: "Stream #13(Compute)", 14: "Stream #14(MemcpyH2D)", 20: "Steps", 21: "XLA Modules", 22: "XLA Ops"}
    events = [
        *named(GPU, "/device:GPU:0", lines),
        *named(HOST, "/host:CPU", {9: "python", 10: "tf_XLAEigen/10"}),
    ]
    for step in range(steps):
        at = 1_000.0 * step
        copy = "kind_src:pageable kind_dst:device size:4000000 dest:0 async:1"
        events += [
            timed(HOST, 9, "train", at, 300.0, step_num=str(step), _r="1"),
            timed(HOST, 9, "$train.py:12 step", at, 900.0),
            timed(HOST, 10, "cuLaunchKernel", at + 1, 4.0, correlation_id=str(step)),
            timed(GPU, 20, str(step), at, 999.0, group_id=str(step)),
            timed(GPU, 21, "jit_step(123)", at, 990.0),
            timed(GPU, 22, "dot.3", at + 200, 600.0, hlo_op="dot.3"),
            timed(GPU, 14, "MemcpyH2D", at, 200.0, memcpy_details=copy),
            timed(GPU, 13, "sm90_xmma_gemm_bf16bf16", at + 200, 600.0, hlo_op="dot.3", correlation_id=str(step)),
            timed(GPU, 13, "ncclDevKernel_AllReduce", at + 800, 100.0, hlo_op="all-reduce.1"),
        ]
    return events


def tpu() -> Events:
    """A loop of 800 µs that holds a fusion of 300 and one of 400, and a collective of 100 after it."""
    events = named(TPU, "/device:TPU:0", {1: "Steps", 2: "XLA Modules", 3: "XLA Ops", 4: "Async XLA Ops"})
    for step in range(5):
        at = 1_000.0 * step
        events += [
            timed(TPU, 1, str(step), at, 1_000.0),
            timed(TPU, 3, "while.2", at, 800.0),
            timed(TPU, 3, "%fusion.7 = bf16[8]{0} fusion(p0)", at + 10, 300.0, hlo_category="convolution fusion"),
            timed(TPU, 3, "fusion.9", at + 350, 400.0, hlo_category="loop fusion"),
            timed(TPU, 3, "all-reduce.4", at + 850, 100.0, hlo_category="all-reduce"),
            timed(TPU, 4, "copy-start.1", at, 990.0),
        ]
    return events


def cpu() -> Events:
    events = named(HOST, "/host:CPU", {9: "python", 10: "tf_XLAPjRtCpuClient/10", 11: "tf_XLAEigen/11"})
    for step in range(5):
        at = 1_000.0 * step
        events += [
            timed(HOST, 9, "train", at, 990.0, step_num=str(step)),
            timed(HOST, 9, "PjitFunction(step)", at, 900.0),
            timed(HOST, 10, "dot.3", at + 100, 500.0, hlo_op="dot.3", hlo_module="jit_step"),
            timed(HOST, 11, "wrapped_tanh", at + 600, 200.0, hlo_op="wrapped_tanh", hlo_module="jit_step"),
        ]
    return events


def document(events: Sequence[object]) -> dict[str, Any]:
    """With the empty event that the writer ends with."""
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[object], Path]:
    def write(content: object) -> Path:
        path = tmp_path / "host"
        text = content if isinstance(content, bytes) else json.dumps(content).encode()
        path.write_bytes(text if isinstance(content, bytes) else gzip.compress(text))
        return path

    return write


def test_a_gpu_s_streams_are_its_work_and_derived_lines_are_not_counted_again(write: Callable[..., Path]) -> None:
    analysis = analyse(write(document(gpu())))
    said = analysis.attribution
    is_open(said)
    assert (said.steps, said.wall_ms_per_step) == (4, pytest.approx(1.0))
    assert said.shares[Category.COMPUTE] == pytest.approx(0.6)
    assert said.shares[Category.TRANSFER] == pytest.approx(0.2)
    assert said.shares[Category.COMMUNICATION] == pytest.approx(0.1)
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.1)
    assert said.evidence[0].startswith("4 steps (annotated steps")
    assert analysis.detail.device == "/device:GPU:0"
    copy = next(movement for movement in analysis.detail.movements if movement.name.startswith("Memcpy"))
    assert copy.name == "Memcpy HtoD (pageable -> device)"
    assert copy.bytes_per_s == pytest.approx(4e6 / 200e-6)
    assert "does not tie what they do to the program" in said.sentence


def test_steps_that_the_program_named_stand_in_for_the_device_s_own(write: Callable[..., Path]) -> None:
    events = [event for event in gpu() if event.get("tid") != 20]
    assert attribute(write(document(events))).evidence[0].startswith("4 steps (annotated steps")


def test_without_any_step_repetition_finds_them(write: Callable[..., Path]) -> None:
    events = [e for e in gpu() if e.get("tid") != 20 and "step_num" not in e.get("args", {})]
    said = attribute(write(document(events)))
    assert said.wall_ms_per_step == pytest.approx(1.0)
    assert "found by repetition" in said.evidence[0]


def test_a_loop_holds_the_operators_of_its_body(write: Callable[..., Path]) -> None:
    said = attribute(write(document(tpu())))
    is_open(said)
    spent = took(said)
    assert spent["fusion.7 [convolution fusion]"] == pytest.approx(0.3)
    assert spent["fusion.9 [loop fusion]"] == pytest.approx(0.4)
    assert spent["while.2"] == pytest.approx(0.1)
    assert said.shares[Category.COMPUTE] == pytest.approx(0.3, abs=0.01)
    assert said.shares[Category.COMMUNICATION] == pytest.approx(0.1, abs=0.01)
    assert not any("copy-start" in name for name in spent)


def test_on_a_cpu_the_operators_are_the_work(write: Callable[..., Path]) -> None:
    analysis = analyse(write(document(cpu())))
    said = analysis.attribution
    is_open(said)
    assert took(said) == {"dot.3": pytest.approx(0.5), "wrapped_tanh": pytest.approx(0.2)}
    assert "XLA on the host" in analysis.detail.device
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.3, abs=0.01)


def test_of_several_devices_the_busiest_is_shown(write: Callable[..., Path]) -> None:
    events = [*gpu(), *named(2, "/device:GPU:1", {13: "Stream #13(Compute)"})]
    events += [timed(2, 13, "fused_add", 1_000.0 * i, 100.0) for i in range(6)]
    said = attribute(write(document(events)))
    assert said.shares[Category.COMPUTE] == pytest.approx(0.6)
    assert any("2 devices worked" in line and "/device:GPU:0" in line for line in said.evidence)


def test_code_that_xla_does_not_describe_is_not_guessed_at(write: Callable[..., Path]) -> None:
    events = named(GPU, "/device:GPU:0", {13: "Stream #13(Compute)"})
    for i in range(5):
        events.append(timed(GPU, 13, "fusion.3", 1_000.0 * i, 600.0))
        events.append(timed(GPU, 13, "loop_convert_fusion", 1_000.0 * i + 600, 400.0))
    said = attribute(write(document(events)))
    assert said.shares[Category.UNATTRIBUTED] == pytest.approx(0.6, abs=0.01)
    assert said.shares[Category.MEMORY_BANDWIDTH] == pytest.approx(0.4, abs=0.01)


def test_the_writer_may_put_arguments_first(write: Callable[..., Path]) -> None:
    text = json.dumps(document(gpu()), sort_keys=True).replace('", "', '","').encode()
    assert attribute(write(text)).shares[Category.COMPUTE] == pytest.approx(0.6)


def test_perfetto_gets_the_trace_itself_with_our_track(write: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    analyse_trace(write(document(gpu())), TraceSettings(), perfetto=out)
    events = json.loads(out.read_text())["traceEvents"]
    assert any(event.get("name") == "sm90_xmma_gemm_bf16bf16" for event in events)
    assert {event["name"] for event in events if event.get("tid") == "category" and event["ph"] == "X"} >= {"compute"}


def with_names(change: Callable[[Events], object]) -> dict[str, Any]:
    events = gpu()
    change([event for event in events if event.get("tid") in (13, 14) and event["ph"] == "X"])
    return document(events)


TEXT = json.dumps(document(gpu())).encode()
DAMAGED: dict[str, object] = {
    "cut": TEXT[: int(len(TEXT) * 0.8)],
    "cut gzip": gzip.compress(TEXT)[:-200],
    "negative durations": with_names(lambda events: events[4].update(dur=-3.0)),
    "starts beyond any clock": with_names(lambda events: events[4].update(ts=1e300)),
    "words for starts": with_names(lambda events: events[4].update(ts="soon")),
    "arguments as text": with_names(lambda events: events[4].update(args="none")),
    "integers beyond 64 bits": with_names(lambda events: events[4].update(ts=10**40)),
    "not a number": TEXT.replace(b'"dur": 600.0', b'"dur": NaN', 1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_traces_blame_nobody(name: str, write: Callable[..., Path]) -> None:
    is_doubted(write(DAMAGED[name]))


def test_operators_across_each_other_are_damage(write: Callable[..., Path]) -> None:
    events = tpu()
    for event in events:
        if event["name"] == "while.2":
            event["dur"] = 600.0
    is_doubted(write(document(events)))


def test_a_trace_of_the_host_alone_is_refused(write: Callable[..., Path]) -> None:
    events = [*named(HOST, "/host:CPU", {9: "python"}), timed(HOST, 9, "main", 0.0, 100.0)]
    assert "no work of a device" in refusal(write(document(events)))
    assert "no work of a device" in refusal(write(document(named(GPU, "/device:GPU:0", {13: "Stream #13"}))))
    idle = [*named(GPU, "/device:GPU:0", {13: "Stream #13"}), timed(GPU, 13, "k", 0.0, 1e-6)]
    assert "takes no time" in refusal(write(document(idle)))
