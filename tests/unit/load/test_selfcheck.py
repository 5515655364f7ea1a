"""The instrument before a run: measured at the run's own load, and honest about what it cannot do."""

from __future__ import annotations

import pytest

from lynxbench.engines.openai import OpenAiLanguage, Service, build_body, build_request
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.selfcheck import measure_preflight
from lynxbench.load.send_schedule import constant


def build(url: str, tokens: int) -> bytes:
    service = Service(url=url, model="ground-truth")
    return build_request(service, build_body(service, "Are you there?", tokens))


@pytest.mark.slow
def test_a_load_beyond_the_ceiling_is_a_problem() -> None:
    flown = measure_preflight(OpenAiLanguage(), build, OpenLoop(constant(400_000.0, 0.5)), 0.5)
    assert flown.streams == 64
    assert flown.requests_per_s > 100
    assert flown.lateness_mean_ms is not None
    assert any("400000 requests/s are asked of a client that can send" in problem for problem in flown.problems)


@pytest.mark.slow
def test_a_closed_loop_is_flown_at_its_own_concurrency() -> None:
    flown = measure_preflight(OpenAiLanguage(), build, ClosedLoop(3), 1.0)
    assert flown.streams == 3
    assert flown.lateness_mean_ms is None
    assert flown.events_per_s >= flown.requests_per_s > 0
    assert flown.ttft_error_mean_ms is not None
