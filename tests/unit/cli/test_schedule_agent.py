"""An agent that is asked to stop ends in order, and leaves the signals of whoever called it as they were."""

from __future__ import annotations

import os
import signal
import threading

from lynxbench.cli.schedule_agent import _stopped_by_sigterm


def test_the_signal_stops_the_work_and_is_the_callers_again_afterwards() -> None:
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        stop = threading.Event()
        with _stopped_by_sigterm(stop):
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(10)
        assert asked == []
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
