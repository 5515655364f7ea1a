from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lynxbench.attribute.attributing import attribute_trace
from lynxbench.attribute.judge.process_accounts import judge_accounts, measure_contention
from lynxbench.attribute.read.resource_record import ResourceStep, parse_resource, read_resource
from lynxbench.attribute.say.verdict_lines import say_accounts
from lynxbench.engines.python_resources import account, write_accounts
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision

MS = 1_000_000
_SPLIT = (
    b'{"kind": "resource", "steps": [{"wall_ns": 5, "thread_cpu_ns": 1, "process_cpu_ns": 1, "exclusive_ns": {SPLIT}}]}'
)


def measure(work: Callable[[], object], path: Path, threads: int = 1) -> tuple[Attribution, list[ResourceStep]]:
    """Real accounts around real work, through the door that the pipeline uses."""
    accounts = [account(lambda index: (work(), 1)[1], index) for index in range(5)]
    write_accounts(accounts, "module:function", threads, path)
    said = attribute_trace(
        path,
        ceilings=(),
        precision=Precision.FP32,
        unprofiled_step_ms=None,
        owner=DEFAULT_OWNERS.__getitem__,
    )
    assert sum(said.shares.values()) == pytest.approx(1.0)
    return said, accounts


def judge(step: dict[str, Any], **record: Any) -> Attribution:
    filled = {"thread_cpu_ns": 0, "process_cpu_ns": 0} | step
    if "exclusive_ns" in filled:
        filled["wall_ns"] = sum(filled["exclusive_ns"].values())
    text = json.dumps({"kind": "resource", "steps": [filled] * 4} | record).encode()
    accounts = parse_resource(text, "resource.json")
    contention = measure_contention(accounts)
    return say_accounts(accounts, contention, judge_accounts(accounts, contention), owner=DEFAULT_OWNERS.__getitem__)


def test_a_sleeping_callable_is_idle(tmp_path: Path) -> None:
    """What it slept is idle, to the nanosecond; a busy machine adds a wait for a CPU, which is booked apart."""
    said, accounts = measure(lambda: time.sleep(0.02), tmp_path / "resource.json")
    asleep_ns = []
    for step in accounts:
        split = step.spent_ns()
        assert sum(split.values()) == step.wall_ns
        asleep_ns.append(split["idle"] + split["synchronization"])  # a thread of the test runner may work meanwhile
        assert asleep_ns[-1] + split["queueing"] >= 19 * MS
        assert asleep_ns[-1] + split["queueing"] + split["compute"] >= 0.98 * step.wall_ns
    assert median(asleep_ns) >= 19 * MS  # a wait between reading the clock and the kernel's count falls on one step
    if said.bottleneck is Category.IDLE and not said.weak:
        assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)


def test_sleep_is_the_applications_and_worth_what_it_takes() -> None:
    said = judge({"exclusive_ns": {"compute": 1 * MS, "idle": 20 * MS}})
    assert (said.bottleneck, said.bound, said.layer) == (Category.IDLE, Bound.SOFTWARE, Layer.APPLICATION)
    assert said.owner == DEFAULT_OWNERS[Layer.APPLICATION]
    assert said.shares[Category.IDLE] > 0.9
    assert not said.weak
    assert said.gain_if_removed.estimate > 5


def test_waiting_for_an_own_thread_is_synchronization(tmp_path: Path) -> None:
    """What the own thread computed meanwhile is synchronization; that it had to wait for a CPU itself is not."""

    def work() -> None:
        def burn() -> None:
            end = time.thread_time_ns() + 20 * MS
            while time.thread_time_ns() < end:
                pass

        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()

    said, accounts = measure(work, tmp_path / "resource.json", threads=4)
    for step in accounts:
        split = step.spent_ns()
        assert sum(split.values()) == step.wall_ns
        assert split["synchronization"] + split["queueing"] >= 19 * MS
    assert said.shares[Category.SYNCHRONIZATION] > 0
    if said.bottleneck is Category.SYNCHRONIZATION:
        assert "own threads" in said.sentence


def test_a_wait_for_an_own_thread_is_said_to_be_one() -> None:
    step = {"exclusive_ns": {"compute": 1 * MS, "synchronization": 20 * MS}, "process_cpu_ns": 21 * MS}
    said = judge(step, threads=4, cpus=4)
    assert (said.bottleneck, said.layer) == (Category.SYNCHRONIZATION, Layer.APPLICATION)
    assert "own threads" in said.sentence


def test_work_on_a_processor_is_compute_and_no_more() -> None:
    said = judge({"wall_ns": 10 * MS, "thread_cpu_ns": 9 * MS, "process_cpu_ns": 19 * MS}, threads=2)
    assert (said.bottleneck, said.bound, said.owner, said.weak) == (Category.COMPUTE, Bound.UNDETERMINED, None, True)
    assert any("1.90 cores" in line for line in said.evidence)


def test_waiting_for_a_cpu_that_others_hold_is_the_systems() -> None:
    said = judge(
        {
            "exclusive_ns": {"compute": 3 * MS, "queueing": 7 * MS, "idle": 0},
            "process_cpu_ns": 3 * MS,
            "process_run_queue_ns": 7 * MS,
        },
        cpus=2,
        run_queue_known=True,
    )
    assert (said.bottleneck, said.bound, said.layer) == (Category.QUEUEING, Bound.SOFTWARE, Layer.SYSTEM)
    assert "other load" in said.sentence
    assert "stop other load" in said.next_step


def test_more_threads_than_cpus_is_told_apart_from_other_load() -> None:
    said = judge(
        {
            "exclusive_ns": {"compute": 3 * MS, "queueing": 7 * MS},
            "process_cpu_ns": 20 * MS,
            "process_run_queue_ns": 60 * MS,
            "threads": 8,
        },
        cpus=2,
        threads=8,
    )
    assert (said.bottleneck, said.layer) == (Category.QUEUEING, Layer.SYSTEM)
    assert "8 of its own threads share the work and there are 2 CPUs" in said.sentence
    assert "no more threads" in said.next_step
    assert Layer.APPLICATION in {candidate.layer for candidate in said.candidates}


def test_a_filled_machine_is_not_called_synchronisation_trouble() -> None:
    split = {"exclusive_ns": {"compute": 1 * MS, "synchronization": 9 * MS}}
    filled = judge(split | {"process_cpu_ns": 19 * MS}, threads=2, cpus=2)
    serial = judge(split | {"process_cpu_ns": 10 * MS}, threads=4, cpus=4)
    assert (filled.bottleneck, filled.bound) == (Category.SYNCHRONIZATION, Bound.UNDETERMINED)
    assert (serial.bound, serial.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "take turns" in serial.sentence


def test_waiting_for_threads_that_wait_for_cpus_is_oversubscription() -> None:
    step = {
        "exclusive_ns": {"compute": 1 * MS, "synchronization": 9 * MS},
        "process_cpu_ns": 19 * MS,
        "process_run_queue_ns": 60 * MS,
        "effective_threads": 9.0,
    }
    said = judge(step, threads=2, cpus=2)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.SYSTEM)
    assert "9 of its own threads" in said.sentence


def test_disk_waits() -> None:
    said = judge({"exclusive_ns": {"compute": 1 * MS, "input": 9 * MS}}, block_io_known=True)
    assert (said.bottleneck, said.bound) == (Category.INPUT, Bound.SOFTWARE)
    unaccounted = judge({"wall_ns": 10 * MS, "thread_cpu_ns": MS, "process_cpu_ns": MS, "major_faults": 9})
    assert (unaccounted.bottleneck, unaccounted.layer) == (Category.IDLE, Layer.SYSTEM)
    assert any("disks" in line for line in unaccounted.evidence)


def test_level_categories_stay_open() -> None:
    said = judge({"exclusive_ns": {"compute": 5 * MS, "idle": 5 * MS + 1}})
    assert (said.bound, said.owner, said.weak) == (Bound.UNDETERMINED, None, True)


def test_contention_needs_the_kernels_account() -> None:
    text = b'{"kind": "resource", "cpus": 2, "steps": [{"wall_ns": 10, "thread_cpu_ns": 1, "process_cpu_ns": 1}]}'
    assert measure_contention(parse_resource(text, "resource.json")) is None


def test_accounts_of_the_whole_process_are_kept() -> None:
    one = account(lambda index: sum(range(100_000)), 0)
    if Path("/proc/self/task").is_dir():
        assert one.threads is not None
        assert one.threads >= 1
        assert one.process_run_queue_ns is not None
        assert one.process_run_queue_ns >= 0
        assert one.effective_threads is None or 0 < one.effective_threads <= one.threads
    assert sum(one.spent_ns().values()) == one.wall_ns
    assert len(os.sched_getaffinity(0)) >= 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"kind": "trace", "steps": [{"wall_ns": 1, "thread_cpu_ns": 1, "process_cpu_ns": 1}]}',
        b'{"kind": "resource", "steps": []}',
        b'{"kind": "resource", "steps": [{"wall_ns": 0, "thread_cpu_ns": 1, "process_cpu_ns": 1}]}',
        b'{"kind": "resource", "steps": [{"wall_ns": 5, "thread_cpu_ns": -1, "process_cpu_ns": 1}]}',
        b'{"kind": "resource", "steps": [{"wall_ns": "x"}]}',
        _SPLIT.replace(b"SPLIT", b'"idle": 4'),
        _SPLIT.replace(b"SPLIT", b'"odd": 5'),
    ],
)
def test_malformed_records_are_refused(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "resource.json"
    path.write_bytes(text)
    with pytest.raises(BadInput) as caught:
        read_resource(path)
    assert "\n" not in str(caught.value)


def test_a_missing_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_resource(tmp_path / "absent.json")
