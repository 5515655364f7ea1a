"""A running probe hands out its requests as they end, and ends when told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load import send_schedule as schedule
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.probe_stream import ProbeStream
from lynxbench.load.processes import RunningProbe
from lynxbench.load.record_parts import requests_so_far
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server
from lynxbench.model.contract import SloMetric


def plan(url, load, duration_s=30.0, processes=1, **changes):
    service = Service(url=url, model="ground-truth")
    script = PlainRotation((build_request(service, build_body(service, "hello", 3)),))
    return LoadPlan(parse_target(url), script, OpenAiLanguage(), load, duration_s, processes=processes, **changes)


def test_a_stream_gives_latencies_by_arrival_and_ends_early():
    with running_server(Behaviour(ttft_ms=20, itl_ms=5, http500=0.1)) as server:
        offsets = schedule.poisson(200, 30.0, seed=4)
        stream = ProbeStream(plan(server.url, OpenLoop(offsets), processes=2), tuple(SloMetric), patience_s=5)
        first = stream.take(100)
        second = stream.take(50)
        stream.end()
        truth = server.stop()
    record = stream.record
    assert record is not None
    assert first.shape == (100, 4)
    assert len(second) == 50
    assert len(record) < len(offsets)
    assert len(record) == len(truth.outcome)
    assert record.stop_reason == "done"
    both = np.concatenate([first, second])
    failed = record.kind[np.argsort(record.number)][:150] == RequestEnd.HTTP_ERROR
    # Which of two that were sent at once comes first is not the client's to say: faults are as many as were dealt out.
    assert (record.kind == RequestEnd.HTTP_ERROR).sum() == truth.count(ServedOutcome.HTTP500) > 0
    assert np.array_equal(np.isinf(both).all(axis=1), failed)
    good = both[~failed]
    assert (good[:, 0] >= good[:, 1]).all()
    assert (good[:, 1] >= 0.02).all()
    assert (good[:, 2] == good[:, 1]).all(), "without thinking the first answer token is the first token"
    assert np.median(good[:, 3]) > 0.004


def test_rows_can_be_read_while_a_closed_loop_runs():
    with (
        running_server(Behaviour(ttft_ms=5)) as server,
        RunningProbe(plan(server.url, ClosedLoop(4), processes=2)) as probe,
    ):
        deadline = time.monotonic() + 300
        while probe.finished < 50 and time.monotonic() < deadline:
            time.sleep(0.05)
        seen = requests_so_far(probe.rows(), probe.start_ns)
        probe.close_load()
        record = probe.finish()
        truth = server.stop()
    assert 50 <= len(seen) <= len(record)
    assert seen.ok.all()
    assert (np.diff(seen.scheduled_ns) >= 0).all()
    assert record.counts()["ok"] == len(record) == truth.count(ServedOutcome.OK)


def test_a_probe_does_not_outlive_who_asked_for_it(tmp_path):
    program = """
import sys
sys.path.insert(0, {here!r})
from lynxbench.load.processes import RunningProbe
from test_probe_stream import plan
from lynxbench.load.plan import ClosedLoop
probe = RunningProbe(plan({url!r}, ClosedLoop(2)))
print(probe._parts[0]._process.pid, flush=True)
import time; time.sleep(60)
"""
    with running_server(Behaviour(ttft_ms=5)) as server:
        text = program.format(here=os.path.dirname(__file__), url=server.url)
        with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as parent:
            child = int(parent.stdout.readline())
            parent.send_signal(signal.SIGKILL)
            parent.wait(300)
        deadline = time.monotonic() + 300
        while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
            with open(f"/proc/{child}/stat") as stat:
                if stat.read().split(") ")[1][0] == "Z":
                    break
            time.sleep(0.05)
        else:
            assert not os.path.exists(f"/proc/{child}")
