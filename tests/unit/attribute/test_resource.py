from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lynxbench.attribute.resource import attribute_resource, parse_resource, read_resource
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import DEFAULT_OWNERS, Layer


def record(work: Callable[[], object], count: int = 5) -> bytes:
    """Real counters around real work."""
    steps = []
    for _ in range(count):
        before = resource.getrusage(resource.RUSAGE_SELF)
        wall, thread, process = time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()
        work()
        after = resource.getrusage(resource.RUSAGE_SELF)
        steps.append(
            {
                "wall_ns": time.perf_counter_ns() - wall,
                "thread_cpu_ns": time.thread_time_ns() - thread,
                "process_cpu_ns": time.process_time_ns() - process,
                "voluntary": after.ru_nvcsw - before.ru_nvcsw,
                "involuntary": after.ru_nivcsw - before.ru_nivcsw,
                "major_faults": after.ru_majflt - before.ru_majflt,
                "minor_faults": after.ru_minflt - before.ru_minflt,
            }
        )
    return json.dumps({"kind": "resource", "steps": steps, "threads": os.cpu_count() or 1}).encode()


def judge(text: bytes) -> Attribution:
    said = attribute_resource(parse_resource(text), owner=DEFAULT_OWNERS.__getitem__)
    assert said.weak
    assert sum(said.shares.values()) == pytest.approx(1.0)
    return said


def test_a_sleeping_callable_is_idle() -> None:
    said = judge(record(lambda: time.sleep(0.02)))
    assert (said.bottleneck, said.bound, said.layer) == (Category.IDLE, Bound.SOFTWARE, Layer.APPLICATION)
    assert said.shares[Category.IDLE] > 0.9


def test_steady_work_is_compute_and_no_more() -> None:
    step = {"wall_ns": 10_000_000, "thread_cpu_ns": 9_900_000, "process_cpu_ns": 19_000_000}
    said = judge(json.dumps({"kind": "resource", "steps": [step] * 4, "threads": 2}).encode())
    assert (said.bottleneck, said.bound, said.owner) == (Category.COMPUTE, Bound.UNDETERMINED, None)
    assert any("1.90 cores" in line for line in said.evidence)


def test_half_and_half_is_undetermined() -> None:
    step = {"wall_ns": 10_000_000, "thread_cpu_ns": 7_000_000, "process_cpu_ns": 7_000_000, "involuntary": 20}
    said = judge(json.dumps({"kind": "resource", "steps": [step] * 4, "threads": 2}).encode())
    assert (said.bottleneck, said.bound) == (Category.UNATTRIBUTED, Bound.UNDETERMINED)
    assert said.candidates[0].layer is Layer.SYSTEM


def test_disk_waits_point_to_the_system() -> None:
    step = {
        "wall_ns": 10_000_000,
        "thread_cpu_ns": 1_000_000,
        "process_cpu_ns": 1_000_000,
        "major_faults": 9,
        "voluntary": 9,
    }
    said = judge(json.dumps({"kind": "resource", "steps": [step] * 4}).encode())
    assert (said.bottleneck, said.layer) == (Category.IDLE, Layer.SYSTEM)


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
