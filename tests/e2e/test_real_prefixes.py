"""A trace with shared prefixes against llama.cpp: the share that the server counts is the one that the trace holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import lynxbench_here
from first_layers import write_first_layers
from real_servers import llamacpp_server, smollm2_path

pytestmark = [pytest.mark.servers, pytest.mark.slow]

CONTRACT = """\
lynxbench: 1
name: traced
question: Does the server's prefix cache find what the trace holds?
regime: latency
workload:
  task: generate
  model: {{source: served, name: smollm2, tokenizer: "package:smollm2-135m-instruct"}}
  precisions: [int8-weight-only]
  arrival: {{process: replay, path: trace.jsonl}}
engine:
  name: openai
  url: {url}/v1
  dialect: llamacpp
  cache: traced
  prefix: {{block: 64}}
  processes: 1
  timeouts: {{first_byte: 200 s, idle: 200 s, drain: 200 s}}
  instrument: {{mean_lateness: 100 ms, p99_lateness: 1 s, p99_lag: 1 s, busy: 100 %}}
protocol:
  restarts: 1
  steady: {{drift: 20 %, window: 1 s}}
  min_duration: 4 s
  limit: 120 s
  foreign_load: 100 %
"""


APART_MS = 1200
"""So that an answer is over before the next question, on a crowded machine too: waiting ones may change places."""


def conversations(count: int, turns: int) -> list[dict]:
    """People who talk one after the other, each turn with all that was said before: one slot remembers one of them."""
    rows = []
    for person in range(count):
        for turn in range(1, turns + 1):
            ids = [100 * person + step for step in range(2 * turn)]
            rows.append(
                {
                    "timestamp": APART_MS * len(rows),
                    "input_length": 64 * len(ids) - 9,
                    "output_length": 2,
                    "hash_ids": [*ids[:-1], 100 * person + 50 + turn],  # the last block is short, and grows
                }
            )
    return rows


def test_the_server_counts_what_the_trace_holds(tmp_path: Path) -> None:
    rows = conversations(3, 4)
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with llamacpp_server(slots=1, model=write_first_layers(smollm2_path(), tmp_path)) as server:
        (tmp_path / "traced.yaml").write_text(CONTRACT.format(url=server.url))
        done = lynxbench_here("run", "traced.yaml", "--json", cwd=tmp_path)
    assert done.code in (0, 1), done.err
    load = json.loads(done.out)["per_precision"][0]["load"]
    assert load["accounting"]["ok"] == len(rows)
    cache = load["cache"]
    assert cache["expected"]["share"] > 0.4
    assert abs(cache["counted_share"] - cache["expected"]["share"]) <= 0.02, cache
    asked = sum(row["input_length"] for row in rows) / len(rows)
    assert load["tokens"]["input_mean"] == pytest.approx(asked, rel=0.02)
