"""The public verbs on a real short run: what the command line does, in this process, with the same words and files."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lynxbench
from command_line import lynxbench_here
from lynxbench.errors import BadInput, BadLedger, ExitCode, OwnCodeFailed
from lynxbench.evidence.documents import write_result
from lynxbench.model.verdicts import SteadyVerdict

PAUSES = """\
import time

import lynxbench
import settings


@lynxbench.benchmark(
    unit="pause", restarts=2, min_duration="300 ms", limit="2 s", drift="20 %", window="30 ms", foreign_load="100 %",
    threads=1, budget="10 %",
)
def pause():
    time.sleep(settings.PAUSE_S)
"""
TRACES = Path(__file__).parents[1] / "data" / "traces"


class Place:
    """A project of one's own, a ledger of its own, and what a run of its function said."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ledger, self.lines = folder, str(folder / "ledger"), []  # type: ignore[var-annotated]
        (folder / "own_pauses.py").write_text(PAUSES)
        (folder / "lib").mkdir()
        (folder / "lib" / "settings.py").write_text("PAUSE_S = 0.005\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Importable from here alone: neither the working directory nor PYTHONPATH leads there."""
    place = Place(tmp_path_factory.mktemp("own"))
    added = [str(place.folder), str(place.folder / "lib")]
    sys.path[:0] = added
    yield place
    for path in added:
        sys.path.remove(path)


@pytest.fixture(scope="module")
def measured(place: Place) -> lynxbench.Measurement:
    """Two fresh processes of the function."""
    function = importlib.import_module("own_pauses").pause
    before = os.environ.get("PYTHONPATH")
    measurement = lynxbench.run(
        function, out=place.folder / "results", ledger=place.ledger, progress=place.lines.append
    )
    assert os.environ.get("PYTHONPATH") == before
    return measurement


def test_a_function_is_measured_in_fresh_processes_and_recorded(place: Place, measured: lynxbench.Measurement) -> None:
    (figures,) = measured.result.per_precision
    assert figures.restarts == 2
    assert figures.throughput is not None
    assert figures.throughput.unit == "pauses/s", "the fresh process saw the decorator"
    assert 0 < (figures.throughput.estimate or 0) < 200, "a pause lasts five milliseconds at least"
    assert measured.standing is not None
    assert measured.standing.registered, "announced before its first sample"
    assert [line for line in place.lines if "process 2 of 2: done" in line]
    assert measured.folder is not None
    assert (measured.folder / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((measured.folder / "result.json").read_text()) == measured.document()
    assert measured.result.contract.policy.regression == 0.1


def test_the_command_line_knows_what_was_recorded(place: Place, measured: lynxbench.Measurement) -> None:
    done = lynxbench_here("results", "show", measured.result_id[:12], "--ledger", place.ledger, cwd=place.folder)
    assert done.code == 0, done.err
    assert measured.result_id[:12] in done.out
    verified = lynxbench_here("verify", measured.name, "--ledger", place.ledger, cwd=place.folder)
    assert verified.code == 0, verified.out + verified.err


def test_it_is_loaded_by_path_id_and_name(place: Place, measured: lynxbench.Measurement) -> None:
    ledger = lynxbench.Ledger(place.ledger)
    assert measured.folder is not None
    for name in (measured.folder, measured.folder / "result.json"):
        assert lynxbench.load(name, ledger=place.ledger).folder == measured.folder
    for text in (measured.result_id, measured.result_id[:10], "last", "own_pauses-pause"):
        again = ledger.load(text)
        assert again.result == measured.result
        assert again.folder is None, "the ledger keeps its samples"
        assert again.standing == measured.standing
    assert str(ledger.load("last")) == str(lynxbench.load(measured.folder, ledger=place.ledger))


def test_it_is_shown_as_text_and_as_a_page_in_a_frame(place: Place, measured: lynxbench.Measurement) -> None:
    assert "pauses/s" in str(measured)
    assert "own_pauses:pause" in str(measured)
    frame = lynxbench.Ledger(place.ledger).load("last")._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    assert frame.count("<") == 2, "all of the page is in the attribute, escaped"
    assert "&lt;svg" in frame, "its plots are drawn from samples that the ledger kept"
    assert measured.result_id[:12] in repr(measured)
    assert measured.result_id[:12] in str(lynxbench.Ledger(place.ledger))


def test_two_processes_are_too_few_for_a_verdict(place: Place, measured: lynxbench.Measurement) -> None:
    loaded = lynxbench.Ledger(place.ledger).load("last")
    for same in ((measured, loaded), (loaded, measured.name), (measured.folder, "last")):
        with pytest.raises(BadInput, match="one and the same result"):
            lynxbench.compare(*same, ledger=place.ledger)
    assert measured.folder is not None
    other = place.folder / "another"
    shutil.copytree(measured.folder, other)
    twin = measured.result.model_copy(update={"run_id": "another"}).sealed()
    write_result(other / "result.json", twin)
    shown = {figures.steady.verdict for figures in measured.result.per_precision}
    for pair in ((measured, other), (loaded, other)):
        compared = lynxbench.compare(*pair, ledger=place.ledger)
        if shown != {SteadyVerdict.STEADY}:  # a machine that others keep busy: the rule says why
            assert "R09 steadiness" in str(compared)
        if SteadyVerdict.NOT_STEADY in shown:  # then there is no ratio
            assert (compared.refused, compared.verdict, compared.exit_code) == (True, None, ExitCode.REFUSED)
            continue
        assert not compared.refused
        assert compared.verdict == "inconclusive"
        assert compared.exit_code is ExitCode.DONE
        assert compared.document()["per_precision"][0]["effects"][0]["verdict"] == "inconclusive"
        assert "a verdict needs" in str(compared)
        assert "INCONCLUSIVE" in compared.html().upper()
    foreign = Path(__file__).parents[1] / "data" / "foreign" / "vllm.json"
    refused = lynxbench.compare(measured, foreign, ledger=place.ledger)
    assert (refused.refused, refused.verdict, refused.exit_code) == (True, None, ExitCode.REFUSED)


def test_rows_leave_with_their_context(place: Place, measured: lynxbench.Measurement) -> None:
    ledger = lynxbench.Ledger(place.ledger)
    for table in (measured.to_arrow(), ledger.to_arrow("own_pauses-pause", limit=5)):
        (row,) = table.to_pylist()
        assert row["result_id"] == measured.result_id
        assert row["contract_id"] == measured.result.contract_id
        assert row["throughput_low"] < row["throughput"] < row["throughput_high"]
        assert row["standing"] == "recorded"
    (listed,) = ledger.results()
    assert listed["result_id"] == measured.result_id
    assert listed["per_precision"][0]["precision"] == "fp32"


def test_a_data_frame_has_the_same_rows(measured: lynxbench.Measurement) -> None:
    pytest.importorskip("pandas", reason="pandas comes with the extra `export`")
    frame = measured.to_pandas()
    assert frame["result_id"].tolist() == [measured.result_id]
    assert frame["throughput"].iloc[0] == measured.to_arrow().to_pylist()[0]["throughput"]


@pytest.mark.parametrize(("module", "form"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_without_the_extra_it_says_which(
    measured: lynxbench.Measurement, monkeypatch: pytest.MonkeyPatch, module: str, form: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BadInput, match=rf"needs? {module}: install lynxbench\[export\]"):
        getattr(measured, form)()


def test_a_trace_is_attributed_as_the_command_does() -> None:
    file = TRACES / "pageable_h2d.json.gz"
    attributed = lynxbench.attribute(file, device="h200", owners="quickstart", step_ms=29.9)
    assert sum(attributed.attribution.shares.values()) == pytest.approx(1)
    options = ("--device", "h200", "--owners", "quickstart", "--step-ms", "29.9")
    done = lynxbench_here("trace", str(file), *options, "--json", cwd=file.parent)
    assert json.loads(done.out) == attributed.document()
    assert attributed.attribution.sentence in repr(attributed)
    assert attributed.html().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lynxbench.attribute, "no trace is given"),
        (lambda: lynxbench.attribute("x.json", device="abacus"), "not in the table"),
        (lambda: lynxbench.attribute("x.json", step_ms=0), "not a step time"),
        (lambda: lynxbench.attribute("x.json", precision="fp7"), "'fp7': none of fp32, "),
        (lambda: lynxbench.load("no/such/folder"), "no such file or folder"),
        (lambda: lynxbench.run("no-such-contract.yaml"), "no such file"),
        (lambda: lynxbench.run({"lynxbench": 1, "name": "x"}), "contract: "),
        (lambda: lynxbench.run({}, intervene="perhaps"), "contract: "),
        (lambda: lynxbench.quick("nothing at all"), "nothing is there"),
        (lambda: lynxbench.Ledger("/no/such/place").results(), "/no/such/place"),
        (lambda: lynxbench.Ledger("none").results(), "needs a ledger"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_exit_code_of_the_command(call: object, says: str) -> None:
    with pytest.raises(lynxbench.LynxbenchError, match=says) as raised:
        call()  # type: ignore[operator]
    assert raised.value.exit_code is ExitCode.BAD_INPUT
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, BadInput | BadLedger)


def test_a_quick_look_at_a_trace_says_what_is_meant_instead(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text("{}")
    with pytest.raises(BadInput, match=r"a trace is not measured but attributed: lynxbench\.attribute"):
        lynxbench.quick(str(file))


def test_a_function_that_cannot_be_imported_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(OwnCodeFailed, match="no fresh process can import it"):
        lynxbench.run(lambda: None, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_fresh_process_would_not_see_is_refused() -> None:
    with pytest.raises(BadInput, match=r"json:dumps: decorate it where it is defined, not in .*: a fresh process"):
        lynxbench.benchmark(unit="text")(json.dumps)
