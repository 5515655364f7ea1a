"""Servers whose counts and events do not say what they seem to: what cannot be known is doubted or left out."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import lynxbench_here
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from served import served_contract


def run_json(folder: Path, text: str) -> dict:
    (folder / "served.yaml").write_text(text, encoding="utf-8")
    done = lynxbench_here("run", "served.yaml", "--json", cwd=folder)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_more_tokens_than_were_asked_for_are_a_doubt(tmp_path: Path) -> None:
    """Whoever counts fifty tokens where four were ordered has fifty tokens' throughput."""
    with running_server(Behaviour(ttft_ms=2, itl_ms=0, tokens=50)) as server:
        result = run_json(tmp_path, served_contract(server.url, restarts=1, arrival="{process: constant, rate: 40 /s}"))
    assert result["per_precision"][0]["load"]["tokens"]["longer_share"] == 1.0
    reasons = result["validity"]["reasons"]
    assert any("100.0% of the answers have more output tokens than were asked for (50.0 on" in why for why in reasons)
