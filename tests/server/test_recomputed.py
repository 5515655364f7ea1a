"""What is pushed is computed again: figures that their own samples refute are called so, and compare with nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from forged_runs import Lie, catch_up, forged_run, pushed, scaled, seal_again
from hosted import World, hosted, make_world
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.sample_file import read_samples, write_samples
from lynxbench.ledger.ledger_tables import results
from lynxbench.model.evidence_gate import figures_fall_short
from lynxbench.model.result import PrecisionResult
from lynxbench.record.recomputing import recompute_samples
from lynxbench.server.rights import API
from lynxbench.watch.recomputations import WHOLE, Recomputations, RecomputationState
from lynxbench.watch.store_tables import baselines


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that recomputes when it is told to."""
    with hosted(make_world(tmp_path_factory.mktemp("recomputed"), shapes=(), decisions=False)) as made:
        yield made


def said_of(world: World, result_id: str) -> dict:  # type: ignore[type-arg]
    answer = world.caller("reader").get(f"{API}/results/{result_id}")
    assert answer.status == 200, answer.text
    document: dict = answer.json()  # type: ignore[type-arg]
    return document


def faster_latencies(part: PrecisionResult) -> dict[str, object]:
    halved = {
        metric: tuple(
            one.model_copy(
                update={
                    name: None if getattr(one, name) is None else getattr(one, name) / 2
                    for name in ("low", "estimate", "high")
                }
            )
            for one in percentiles
        )
        for metric, percentiles in part.latency_ms.items()
    }
    return {"latency_ms": halved}


def more_restarts(part: PrecisionResult) -> dict[str, object]:
    return {"restarts": part.restarts + 3}


LIES: list[tuple[str, Lie, str]] = [
    ("figures ×4", scaled(4.0), "throughput"),
    ("figures a ten-thousandth better", scaled(1.0001), "throughput"),
    ("latencies halved", faster_latencies, "latency percentiles"),
    ("more restarts than there were", more_restarts, "restarts"),
]


def test_until_then_pages_and_api_say_that_nothing_was_recomputed(place: World, spin_run: Path, tmp_path: Path) -> None:
    result_id = pushed(place, forged_run(spin_run, tmp_path, 1, scaled(4.0)))
    reader = place.caller("reader")
    assert said_of(place, result_id)["recomputed"]["state"] == "pending"
    listed = reader.get(f"{API}/results?limit=50").json()["results"]
    assert {one["recomputed"]["state"] for one in listed if one["result_id"] == result_id} == {"pending"}
    contract = listed[0]["contract_id"]
    for page in (f"/results/{result_id}", f"/results?contract={contract}", f"/results/{result_id}/report.html"):
        assert "not recomputed here" in reader.get(page).text, page
    catch_up(place)


def test_an_honest_result_is_recomputed_and_compares(place: World, spin_run: Path, tmp_path: Path) -> None:
    first, second = (pushed(place, forged_run(spin_run, tmp_path, number)) for number in (2, 3))
    catch_up(place)
    outcome = said_of(place, first)["recomputed"]
    assert outcome["state"] == "holds", outcome
    assert "checks hold" in outcome["sentence"]
    assert "recomputed here:" in place.caller("reader").get(f"/results/{first}").text
    compared = place.caller("reader").get(f"{API}/compare?a={first}&b={second}").json()
    assert not [rule for rule in compared["rules"] if rule["rule"] == "R16" and rule["outcome"] != "holds"]


@pytest.mark.parametrize(("number", "lie", "named"), [(10 + n, lie, named) for n, (_, lie, named) in enumerate(LIES)])
def test_figures_that_their_samples_refute_are_called_so(
    place: World, spin_run: Path, tmp_path: Path, number: int, lie: Lie, named: str
) -> None:
    honest = pushed(place, forged_run(spin_run, tmp_path, number + 100))
    forged = pushed(place, forged_run(spin_run, tmp_path, number, lie))
    catch_up(place)
    told = said_of(place, forged)
    assert told["recomputed"]["state"] == "refuted", told["recomputed"]
    (line, *_) = [line for line in told["recomputed"]["lines"] if line.startswith(f"fp32 {named}: does not hold")]
    assert re.search(r"stated [^,]+, recomputed ", line), line
    assert told["standing"]["summary"] == "does not verify"
    assert told["standing"]["refuted"][-1]["by"] == "this server"
    reader = place.caller("reader")
    page = reader.get(f"/results/{forged}").text
    assert "Refuted here" in page
    assert page.index("Refuted here") < page.index("Verdict"), "before anybody reads the figures"
    assert f"fp32 {named}: does not hold" in page
    for a, b in ((honest, forged), (forged, honest)):
        compared = reader.get(f"{API}/compare?a={a}&b={b}").json()
        assert compared["comparability"] == "incomparable"
        assert compared["effect"] is None
        assert any(rule["rule"] == "R16" and "refuted here" in rule["said"] for rule in compared["rules"]), compared
    assert "Refuted here" in reader.get("/").text


def test_what_is_refuted_is_in_no_series(place: World, spin_run: Path, tmp_path: Path) -> None:
    forged = pushed(place, forged_run(spin_run, tmp_path, 30, scaled(4.0)))
    catch_up(place)
    result = place.server.recomputations.of([forged])[forged]
    assert result.state is RecomputationState.REFUTED
    contract = said_of(place, forged)["result"]["contract_id"]
    history = place.caller("reader").get(f"{API}/contracts/{contract}/history").json()
    assert forged not in [point["result_id"] for point in history["points"]]
    assert any(forged[:12] in line and "refuted here" in line for line in history["left_out"])


def test_samples_that_fit_the_lie_are_held_against_what_the_processes_wrote(
    place: World, spin_run: Path, tmp_path: Path
) -> None:
    """Samples four times as dense and the figures that they give: those fit each other, not the processes' journals."""
    folder = forged_run(spin_run, tmp_path, 40)
    dense = []
    for process in read_samples(folder / "samples.npz"):
        iterations = process.samples.iterations
        start, end = iterations.start_ns, iterations.end_ns
        origin = start[0] if len(start) else 0
        quick = type(iterations)(origin + (start - origin) // 4, origin + (end - origin) // 4, iterations.units)
        dense.append(replace(process, samples=replace(process.samples, iterations=quick)))
    honest = read_result(folder)
    fitting = recompute_samples(honest, dense)  # which phases count may differ from what was measured
    (folder / "samples.npz").unlink()
    samples = write_samples(folder / "samples.npz", fitting.processes)
    parts = tuple(fitting.per_precision.values())
    seal_again(folder, honest.model_copy(update={"samples": samples, "per_precision": parts}))
    forged = pushed(place, folder)
    catch_up(place)
    outcome = said_of(place, forged)["recomputed"]
    assert outcome["state"] == "refuted"
    assert any(line.startswith("samples and phases: does not hold") for line in outcome["lines"]), outcome


def test_figures_without_samples_are_never_called_recomputed(place: World, spin_run: Path, tmp_path: Path) -> None:
    """Invented figures whose samples, attempts and registration were simply left out."""
    unsupported = place.results[0].result_id  # what the world is filled with has no samples
    place.server.recomputing.take_next()
    while place.server.recomputations.of([unsupported])[unsupported].state is RecomputationState.PENDING:
        assert place.server.recomputing.take_next() is not None
    assert place.server.recomputations.of([unsupported])[unsupported].state is not RecomputationState.HOLDS


def test_no_verdict_rests_on_what_could_not_be_recomputed(place: World, spin_run: Path, tmp_path: Path) -> None:
    """Or samples that end the process would be a way around being refuted."""
    first, second = (pushed(place, forged_run(spin_run, tmp_path, number)) for number in (45, 46))
    due = place.server.recomputations.due()
    assert due is not None
    due = replace(due, mark=WHOLE)
    place.server.recomputations.keep(due, RecomputationState.CANNOT, ["it took more than 60 s of a processor"])
    catch_up(place)
    assert said_of(place, first)["recomputed"]["state"] == "cannot"
    compared = place.caller("reader").get(f"{API}/compare?a={first}&b={second}").json()
    assert compared["verdict"] in (None, "unproven", "inconclusive")
    (rule,) = [rule for rule in compared["rules"] if rule["rule"] == "R16"]
    assert rule["outcome"] == "doubts"
    assert "could not be recomputed here: it took more than 60 s" in rule["said"]
    page = place.caller("reader").get(f"/results/{first}").text
    assert "could not be recomputed here: it took more than 60 s" in page


# --- samples that are meant to harm whoever reads them ---


def hostile_header(folder: Path) -> None:
    """A column that says it has four million million rows."""
    shape = b"{'descr': '<i8', 'fortran_order': False, 'shape': (4000000000000,), }"
    _write_npz(folder, lambda name: _npy(shape))


def negative_shape(folder: Path) -> None:
    _write_npz(folder, lambda name: _npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (-7,), }"))


def an_object_array(folder: Path) -> None:
    """What would be unpickled by a careless reader."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    _write_npz(folder, lambda name: _npy(header, b"cos\nsystem\n."))


def _npy(header: bytes, data: bytes = b"\0" * 64) -> bytes:
    padded = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + data


def _write_npz(folder: Path, content: Callable[[str], bytes]) -> None:
    import zipfile

    from lynxbench.evidence.sample_file import COLUMNS

    file = folder / "samples.npz"
    file.unlink()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in COLUMNS:
            archive.writestr(f"{name}.npy", content(name))


@pytest.mark.parametrize(
    ("number", "harm"),
    [(50, hostile_header), (51, negative_shape), (52, an_object_array)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_hostile_samples_end_in_a_word_and_the_next_result_is_recomputed(
    place: World, spin_run: Path, tmp_path: Path, number: int, harm: Callable[[Path], None]
) -> None:
    import hashlib

    folder = forged_run(spin_run, tmp_path, number)
    harm(folder)
    result = read_result(folder)
    digest = hashlib.sha256((folder / "samples.npz").read_bytes()).hexdigest()
    seal_again(folder, result.model_copy(update={"samples": result.samples.model_copy(update={"sha256": digest})}))
    hostile = pushed(place, folder)
    honest = pushed(place, forged_run(spin_run, tmp_path, number + 100))
    catch_up(place)
    outcome = said_of(place, hostile)["recomputed"]
    assert outcome["state"] in ("refuted", "cannot"), outcome
    assert outcome["lines"]
    assert str(tmp_path) not in json.dumps(outcome), "where the server works is nobody's business"
    assert said_of(place, honest)["recomputed"]["state"] == "holds"
    assert place.caller("reader").get(f"/results/{hostile}").status == 200


def test_a_server_that_restarts_recomputes_what_it_had_not(place: World, spin_run: Path, tmp_path: Path) -> None:
    waiting = [pushed(place, forged_run(spin_run, tmp_path, 90 + number)) for number in range(2)]
    assert place.server.recomputing.take_next() is not None
    after_a_restart = Recomputations(place.server.store, place.server.ledger.log)
    due = after_a_restart.due()
    assert due is not None
    assert due.result_id == waiting[1]
    catch_up(place)
    assert {said_of(place, name)["recomputed"]["state"] for name in waiting} == {"holds"}


def test_a_listening_server_recomputes_by_itself(
    spin_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also: figures that are refuted are no level that later results are held against, though they came first."""
    monkeypatch.setattr("lynxbench.server.recompute_queue.REST_SHARE", 0.0)  # what was there before is taken at once
    with hosted(make_world(tmp_path / "own", shapes=(), decisions=False), looking=True) as world:
        assert world.server.watch.pending() == []
        forged = pushed(world, forged_run(spin_run, tmp_path, 8, scaled(4.0)))
        honest = pushed(world, forged_run(spin_run, tmp_path, 7))
        kept = [row.result_id for row in world.server.ledger.log.database.rows(select(results.c.result_id))]
        assert {forged, honest} < set(kept)
        until = time.monotonic() + 300
        while time.monotonic() < until and (
            world.server.watch.pending()
            or any(outcome.at is None for outcome in world.server.recomputations.of(kept).values())
        ):
            time.sleep(0.1)
        assert said_of(world, honest)["recomputed"]["state"] == "holds"
        assert said_of(world, forged)["recomputed"]["state"] == "refuted"
        contract = said_of(world, honest)["result"]["contract_id"]
        chosen = select(baselines.c.result_id).where(baselines.c.contract_id == contract)
        result = read_result(spin_run)
        is_level = not any(figures_fall_short(result, part) for part in result.per_precision)  # on a busy machine
        assert [row.result_id for row in world.server.store.rows(chosen)] == ([honest] if is_level else [])
        (told,) = re.findall(
            r'^lynxbench_recomputed_total\{state="refuted"\} (.*)$', world.caller("reader").get("/metrics").text, re.M
        )
        states = [outcome.state.value for outcome in world.server.recomputations.of(kept).values()]
        assert float(told) == world.server.recomputations.counts()["refuted"] == states.count("refuted")
