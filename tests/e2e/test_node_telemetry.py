"""A served run whose contract names the node's exporter: its readings stand in the result, are judged and verified."""

from __future__ import annotations

import json
import time
from pathlib import Path

from command_line import lynxbench_here
from exporters import H200, device_lines, serving
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from lynxbench.record.verifying import verify_folder
from served import served_contract


def test_a_throttled_node_is_told_by_its_exporter(tmp_path: Path) -> None:
    def answer(path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        energy_mj = 1e9 + time.perf_counter() * 600e3
        return 200, device_lines(energy_mj=energy_mj, reasons=0x40) + 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-x"} 99\n'

    with running_server(Behaviour(ttft_ms=2, itl_ms=1)) as server, serving(answer) as exporter:
        named = f"node: {{exporters: ['{exporter}/metrics'], every: 200 ms}}"
        text = served_contract(server.url, restarts=1, engine=named)
        (tmp_path / "served.yaml").write_text(text, encoding="utf-8")
        done = lynxbench_here("run", "served.yaml", "--json", cwd=tmp_path)
    assert done.code in (0, 1), done.err
    result = json.loads(done.out)
    measured = result["per_precision"][0]
    node = measured["load"]["node"]
    assert node["devices"] == {"gpu0": H200}
    assert node["source"] == f"scraped from {exporter.removeprefix('http://')}"
    assert any("does not say of which device" in note for note in node["notes"])
    reasons = measured["validity"]["reasons"]
    if node["covered"] >= 0.9:  # on a crowded machine the reader may have had no turn for seconds
        assert node["throttled"] == {"gpu0 hardware thermal slowdown": 1.0}
        assert any(reason.startswith("the server's node: throttling: gpu0 hardware thermal") for reason in reasons)
    else:
        assert any("the node's telemetry covers" in reason for reason in reasons)
    folder = next((tmp_path / "results").iterdir())
    assert "scraped from" in (folder / "report.md").read_text()
    assert not [check for check in verify_folder(folder).checks if check.outcome.value == "does not hold"]
    kept = folder / "node.csv"
    kept.write_text(kept.read_text().replace(",64", ",0"))
    assert [check for check in verify_folder(folder).checks if check.outcome.value == "does not hold"]
