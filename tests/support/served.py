"""A contract against the bundled server that ends in seconds, and the server beside it."""

from __future__ import annotations

from typing import Any

import pytest

SERVED_CONTRACT = """\
lynxbench: 1
name: served
question: What does the bundled server do under this load?
regime: latency
workload:
  task: generate
  model: {{source: served, name: ground-truth}}
  precisions: [fp32]
  input_tokens: {{distribution: fixed, value: 10}}
  output_tokens: {{distribution: fixed, value: {tokens}}}
  arrival: {arrival}
engine:
  name: openai
  url: {url}
  processes: 1
  timeouts: {{connect: 2 s, first_byte: 3 s, idle: {idle}, total: 8 s, drain: 3 s}}
  instrument: {instrument}
{engine}
objective:
  slo: [{slo}]
protocol:
  restarts: {restarts}
  steady: {{drift: 20 %, window: 100 ms}}
  min_duration: {shortest}
  limit: {longest}
  foreign_load: 100 %
"""
"""The instrument's bounds are wide: these tests run beside others, and it has tests of its own."""

WIDE_BOUNDS = "{mean_lateness: 200 ms, p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %, coalesced: 100 %}"
STRICT_BOUNDS = "{mean_lateness: 1 ms, p99_lateness: 10 ms, p99_lag: 10 ms, busy: 90 %, coalesced: 1 %}"


def expect_client_kept_up(result: dict[str, Any]) -> None:
    """Where the machine stands still the client is the limit: it says so, the run is void, and no more can be shown."""
    load = result["per_precision"][0]["load"]
    if load["instrument"]["verdict"] != "good":
        assert result["validity"]["verdict"] == "void"
        pytest.skip(f"this machine is too unsteady for a client on it: {load['instrument']['reasons']}")


def served_contract(
    url: str,
    *,
    arrival: str = "{process: poisson, rate: 100 /s}",
    tokens: int = 4,
    slo: str = "{metric: latency, percentile: 90, at_most: 1 s}",
    restarts: int = 2,
    shortest: str = "1500 ms",
    longest: str = "2 s",
    idle: str = "400 ms",
    instrument: str = WIDE_BOUNDS,
    engine: str = "",
) -> str:
    """The contract's text; `engine` adds lines to its engine section."""
    added = "\n".join(f"  {line}" for line in engine.splitlines())
    return SERVED_CONTRACT.format(
        url=url,
        arrival=arrival,
        tokens=tokens,
        slo=slo,
        restarts=restarts,
        shortest=shortest,
        longest=longest,
        idle=idle,
        instrument=instrument,
        engine=added,
    )
