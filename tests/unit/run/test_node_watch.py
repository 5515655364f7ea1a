"""A node watched over live HTTP: exporters that answer and die, and a Prometheus server with its own clock."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from exporters import H200, device_lines, host_lines, matrix, serving
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.model.serving import NodeSource
from lynxbench.run.node_watch import NODE_FILE, NOTES_FILE, node_in, read_notes, watched_node

LABELS = {"gpu": "0", "UUID": "GPU-0", "modelName": H200, "instance": "gpu-7:9400"}


def source(**keys: object) -> NodeSource:
    return NodeSource.model_validate_json(json.dumps(keys))


def wait_for_looks(looks: list[int], many: int) -> None:
    """Until the exporter was asked so often; the test's own limit ends a wait that never does."""
    seen = len(looks)
    while len(looks) < seen + many:
        time.sleep(0.01)


def test_exporters_are_scraped_until_the_run_ends(tmp_path: Path) -> None:
    looks: list[int] = []

    def answer(path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        assert path == "/metrics"
        looks.append(0)
        return 200, device_lines(energy_mj=1e9 + 1e5 * len(looks)) + host_lines(len(looks), now_s=time.time() + 7)

    began_ns = time.perf_counter_ns()
    with serving(answer) as address, watched_node(tmp_path, source(exporters=[address], every="200 ms")):
        wait_for_looks(looks, 4)
    node = node_in(tmp_path, [(began_ns, time.perf_counter_ns())])
    assert node is not None
    assert node.record.readings >= 3
    assert node.record.devices == {"gpu0": H200}
    assert node.record.source == f"scraped from {address.removeprefix('http://')}"
    assert node.record.skew_s == pytest.approx(7, abs=2)
    assert began_ns < node.devices.at_ns[0] < time.perf_counter_ns()
    levels = {quantity.column: quantity.mean for quantity in node.record.quantities}
    assert levels["gpu0_power_w"] == 612.5
    assert levels["load_1min"] == 0.71


def test_an_exporter_that_dies_mid_run_is_said_and_nothing_is_made_up(tmp_path: Path) -> None:
    looks: list[int] = []

    def answer(path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        looks.append(0)
        if len(looks) > 3:
            return 503, "gone"
        return 200, device_lines(energy_mj=1e9 + 1e5 * len(looks)) + "not a line at all{\n"

    with serving(answer) as address, watched_node(tmp_path, source(exporters=[address], every="200 ms")):
        wait_for_looks(looks, 6)
    notes = read_notes(tmp_path)
    assert notes is not None
    assert any("did not answer" in note and "status 503" in note for note in notes.notes)
    assert any("not in Prometheus' format" in note for note in notes.notes)
    power = read_telemetry(tmp_path / NODE_FILE).columns["gpu0_power_w"]
    assert set(power[:2]) == {612.5}
    assert str(power[-1]) == "nan"


def test_nobody_there_is_a_note_and_no_error(tmp_path: Path) -> None:
    with watched_node(tmp_path, source(exporters=["http://127.0.0.1:9"])):
        pass
    node = node_in(tmp_path, [(0, 1)])
    assert node is not None
    assert any("127.0.0.1:9 did not answer" in note for note in node.record.notes)
    assert node.record.covered == 0.0


def test_a_run_without_a_named_node_keeps_nothing(tmp_path: Path) -> None:
    with watched_node(tmp_path, None):
        pass
    assert node_in(tmp_path, [(0, 1)]) is None
    assert list(tmp_path.iterdir()) == []


class Prometheus:
    """One whose clock is ahead, with samples every second around the moment it is asked."""

    def __init__(self, ahead_s: float = 40.0, uuids: tuple[str, ...] = ("GPU-0",)) -> None:
        self.ahead_s, self.uuids, self.queries = ahead_s, uuids, list[str]()

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, str]:
        asked = query["query"][0]
        self.queries.append(asked)
        if asked == "time()":
            result = [time.time(), f"{time.time() + self.ahead_s:.3f}"]
            return 200, json.dumps({"status": "success", "data": {"resultType": "scalar", "result": result}})
        at_s = float(query["time"][0])
        series = {}
        for place, uuid in enumerate(self.uuids):
            moments = [at_s - 5 + number + place / 10 for number in range(6)]
            labels = {**LABELS, "UUID": uuid}
            power = [(moment, 400.0 + place) for moment in moments]
            energy = [(moment, 1e9 + 4e5 * number) for number, moment in enumerate(moments)]
            series[f"p{place}"] = ({**labels, "__name__": "DCGM_FI_DEV_POWER_USAGE"}, power)
            series[f"e{place}"] = ({**labels, "__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}, energy)
        return 200, matrix(series)


def test_prometheus_is_asked_for_stored_samples_and_its_clock_is_allowed_for(tmp_path: Path) -> None:
    server = Prometheus(ahead_s=40.0)
    with serving(server.answer) as address:
        asked = source(prometheus=address, gpu_labels={"instance": 'gpu-7:"9400'})
        with watched_node(tmp_path, asked):
            pass
        ended_ns = time.perf_counter_ns()
    node = node_in(tmp_path, [(ended_ns - 5_000_000_000, ended_ns)])
    assert node is not None
    assert node.record.skew_s == pytest.approx(40.0, abs=0.5)
    assert node.record.skew_bound_s is not None
    assert node.record.readings == 6
    assert node.record.every_s == pytest.approx(1.0, abs=1e-3)
    assert ended_ns - 10_000_000_000 < node.devices.at_ns[0] < node.devices.at_ns[-1] < ended_ns + 3_000_000_000
    (query,) = {query for query in server.queries if query != "time()"}
    assert 'instance="gpu-7:\\"9400"' in query
    assert query.endswith("s]")  # stored samples: a query of steps would fill gaps with the last five minutes


def test_series_of_two_nodes_under_one_label_are_of_no_device(tmp_path: Path) -> None:
    with (
        serving(Prometheus(uuids=("GPU-a", "GPU-b")).answer) as address,
        watched_node(tmp_path, source(prometheus=address, gpu_labels={"job": "dcgm"})),
    ):
        pass
    node = node_in(tmp_path, [(0, time.perf_counter_ns())])
    assert node is not None
    assert node.devices.columns == {}
    assert any("several answered under this name" in note for note in node.record.notes)


@pytest.mark.parametrize("body", ["<html>", "[]", '{"status": "error", "error": "bad"}', '{"status": "success"}'])
def test_an_answer_that_is_not_prometheus_is_said(tmp_path: Path, body: str) -> None:
    with (
        serving(lambda path, query: (200, body)) as address,
        watched_node(tmp_path, source(prometheus=address, gpu_labels={"job": "dcgm"})),
    ):
        pass
    notes = read_notes(tmp_path)
    assert notes is not None
    assert any("clock could not be asked for" in note for note in notes.notes)
    assert not (tmp_path / NODE_FILE).exists()
    assert (tmp_path / NOTES_FILE).exists()


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"exporters": ["http://a:9400"], "prometheus": "http://p:9090", "gpu_labels": {"instance": "a"}},
        {"prometheus": "http://p:9090"},
        {"exporters": ["http://a:9400"], "gpu_labels": {"instance": "a"}},
        {"exporters": ["http://user:secret@a:9400"]},
        {"prometheus": "http://p:9090", "gpu_labels": {'a="1"} or x': "a"}},
    ],
)
def test_a_source_says_one_way_and_which_series(keys: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        source(**keys)
