"""Several client processes: the parts are exact, and a lost one is seen."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.errors import CannotRun
from lynxbench.load import send_schedule as schedule
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.instrument import judge
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.processes import RunningProbe, drive
from lynxbench.load.response_reading import PlainRotation
from lynxbench.load.truth_process import running_server


def plan(url, load, duration_s, processes):
    service = Service(url=url, model="m")
    script = PlainRotation((build_request(service, build_body(service, "hello", 3)),))
    return LoadPlan(parse_target(url), script, OpenAiLanguage(), load, duration_s, processes=processes, drain_s=5)


def test_an_open_loop_on_three_processes_is_the_one_schedule():
    offsets = schedule.poisson(300, 1.0, seed=4)
    with running_server(Behaviour(ttft_ms=5, itl_ms=1)) as server:
        record = drive(plan(server.url, OpenLoop(offsets), 1.0, 3))
        truth = server.stop()
    assert record.counts()["ok"] == len(record) == len(offsets) == truth.count(ServedOutcome.OK)
    assert np.array_equal(record.scheduled_ns - record.start_ns, offsets)
    assert np.array_equal(record.number, np.arange(len(offsets)))
    assert np.array_equal(record.process, np.arange(len(offsets)) % 3)
    assert record.event_offsets[-1] == 3 * len(offsets)
    assert [health.process for health in record.health] == [0, 1, 2]
    rows = np.repeat(np.arange(len(record)), np.diff(record.event_offsets))
    assert (record.event_ns >= record.sent_ns[rows]).all()
    assert (record.event_ns <= record.last_ns[rows]).all()


def test_a_closed_loop_shares_concurrency_and_quota():
    with running_server(Behaviour(ttft_ms=2)) as server:
        record = drive(plan(server.url, ClosedLoop(5, requests=41), 20.0, 2))
        truth = server.stop()
    assert record.counts()["ok"] == 41 == truth.count(ServedOutcome.OK)
    assert truth.connections == 5
    assert sorted(record.number) == list(range(41))


def _probe(url, offsets):
    return RunningProbe(plan(url, OpenLoop(offsets), 1.5, 2))


def test_a_killed_process_leaves_unsent_rows_and_voids_the_run():
    offsets = schedule.constant(100, 1.5)
    with running_server(Behaviour(ttft_ms=2)) as server, _probe(server.url, offsets) as probe:
        # stopped at once: on a busy machine it could have ended before its turn to be killed came
        os.kill(probe._parts[0]._process.pid, signal.SIGSTOP)
        while not probe.finished:
            time.sleep(0.01)
        os.kill(probe._parts[0]._process.pid, signal.SIGKILL)
        record = probe.finish()
    assert len(record) == len(offsets)
    assert len(record.lost_processes) == 1
    counts = record.counts()
    of_lost = record.process == record.lost_processes[0]
    assert of_lost.sum() == len(offsets) // 2
    assert (record.kind[of_lost] == RequestEnd.UNSENT).all()
    assert counts["ok"] + counts["unsent"] == len(offsets), "the other may be late; it loses nothing"
    assert counts["ok"] > 0
    assert judge(record).void


def test_a_wrong_address_is_one_line():
    with pytest.raises(CannotRun, match=r"no-such-host\.invalid"):
        drive(plan("http://no-such-host.invalid/v1", ClosedLoop(2), 1.0, 2))


@pytest.mark.slow
def test_a_starved_client_is_void_never_a_number():
    """Half a core: a busy neighbour of equal weight on the client's only core."""
    cores = sorted(os.sched_getaffinity(0))
    with running_server(Behaviour(), cores[0]) as server:
        neighbour = subprocess.Popen(["taskset", "-c", str(cores[-1]), "sh", "-c", "while :; do :; done"])
        try:
            os.sched_setaffinity(0, {cores[-1]})
            record = drive(plan(server.url, OpenLoop(schedule.poisson(9000, 1.0, seed=1)), 1.0, 1))
        finally:
            os.sched_setaffinity(0, set(cores))
            neighbour.kill()
            neighbour.wait()
    verdict = judge(record)
    assert verdict.void
    assert verdict.reasons


def test_a_process_that_sends_reads_no_documents_and_imports_nothing_for_them():
    sends = "lynxbench.load.processes, lynxbench.engines.openai, lynxbench.engines.marked_requests"
    subprocess.run([sys.executable, "-c", f"import sys, {sends}; sys.exit('pydantic' in sys.modules)"], check=True)
