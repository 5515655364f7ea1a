"""Histories: planted steps are found and tied to what changed in the record; nothing is invented."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from compared import make_executor, make_precision, make_result
from lynxbench.compare.levels import point_of, read_history
from lynxbench.compare.suspects import changes_between
from lynxbench.model.comparison import CauseKind
from lynxbench.model.executor import FieldChange
from lynxbench.model.history import DriftKind, History, HistoryPoint, LevelChange, Motion
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict


def _results(count: int, step_at: int, factor: float, change: dict[str, object], *, record_at: int | None = None):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(7)
    results = []
    for i in range(count):
        level = 100.0 * (factor if i >= step_at else 1.0)
        means = tuple(float(level * np.exp(rng.normal(0, 0.005))) for _ in range(5))
        changed = change if i >= (step_at if record_at is None else record_at) else {}
        stamp = f"2026-01-{1 + i:02d}T00:00:00+00:00"
        results.append(make_result(executor=make_executor(changed), run_means=means, started_at=stamp))
    return results


def _history(results: list[Result], *, documents: bool = True) -> History:
    by_id = {one.result_id: one for one in results}
    points = [point_of(one, Precision.FP32) for one in results]
    assert all(isinstance(point, HistoryPoint) for point in points)

    def between(pairs: Sequence[tuple[HistoryPoint, HistoryPoint]]) -> list[tuple[FieldChange, ...]]:
        return [changes_between(by_id[a.result_id], by_id[b.result_id]) for a, b in pairs]

    return read_history(
        [point for point in points if isinstance(point, HistoryPoint)],
        contract_id=results[0].contract_id,
        contract="compared",
        precision=Precision.FP32,
        fields_between=between if documents else lambda pairs: [None] * len(pairs),
    )


def test_a_driver_bump_is_found_quantified_and_owned() -> None:
    found = _history(_results(24, 12, 0.88, {"system.nvidia_driver": "570.00"}))
    (change,) = found.changes
    assert change.found
    assert change.index == 12
    assert change.effect.low < 0.88 < change.effect.high
    assert change.effect.high < 0.9
    assert change.drift is DriftKind.EXECUTOR
    assert change.layers_changed == (Layer.SYSTEM,)
    assert change.cause.owner == "infrastructure SRE"
    assert "nvidia_driver" in change.cause.sentence


def test_the_ledger_alone_names_the_layer() -> None:
    found = _history(_results(24, 12, 0.88, {"system.nvidia_driver": "570.00"}), documents=False)
    assert found.changes[0].cause.layer is Layer.SYSTEM


def test_model_drift_is_told_from_executor_drift() -> None:
    found = _history(_results(24, 12, 0.9, {"application.model_sha256": "cd" * 32}))
    assert found.changes[0].drift is DriftKind.MODEL
    assert found.changes[0].cause.kind is CauseKind.MODEL
    both = _history(_results(24, 12, 0.9, {"application.model_sha256": "cd" * 32, "system.kernel": "6.2"}))
    assert both.changes[0].drift is DriftKind.BOTH


def test_a_step_without_a_recorded_change_says_so() -> None:
    found = _history(_results(24, 12, 0.9, {}))
    assert found.changes[0].drift is DriftKind.NOTHING
    assert found.changes[0].cause.kind is CauseKind.NOTHING_RECORDED


def test_a_record_change_without_a_step_is_listed_with_its_missing_effect() -> None:
    found = _history(_results(24, 99, 1.0, {"system.kernel": "6.2"}, record_at=10))
    (change,) = found.changes
    assert not change.found
    assert change.index == 10
    assert change.moved is False


def test_a_change_point_is_tied_to_the_nearest_record_change() -> None:
    found = _history(_results(24, 12, 0.88, {"system.nvidia_driver": "570.00"}, record_at=11))
    assert len(found.changes) == 1
    assert found.changes[0].drift is DriftKind.EXECUTOR


def _two(*stamps: str) -> LevelChange:
    pair = zip(_results(2, 1, 0.8, {"system.nvidia_driver": "570.00"}), stamps, strict=True)
    found = _history([result.model_copy(update={"started_at": stamp}).sealed() for result, stamp in pair])
    assert "need 16" in found.note
    (change,) = found.changes
    assert not change.found
    assert change.effect.estimate == pytest.approx(0.8, rel=0.02)
    return change


def test_short_histories_use_the_restarts() -> None:
    change = _two("2026-01-01T00:00:00+00:00", "2026-01-01T02:00:00+00:00")
    assert change.moved
    assert "one sitting" not in change.basis


def test_restarts_of_one_sitting_each_do_not_tell_whether_the_record_change_did_it() -> None:
    change = _two("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    assert change.moved is None
    assert "one sitting each" in change.basis


@pytest.mark.parametrize(
    ("machines", "restarts", "words"),
    [
        (("host-a", "host-b"), 5, "sittings and machines differ"),
        (("host-a", "host-a"), 2, "fewer than 5"),
        (("host-a", "host-a"), 4, "fewer than 5"),
        (("host-a", "host-a"), 5, ""),
    ],
)
def test_another_machine_or_few_restarts_blame_nobody(machines: tuple[str, str], restarts: int, words: str) -> None:
    """Within two hours, with another driver, and far apart: what `compare` would not decide names no owner here."""
    results = []
    for number, (machine, driver, level) in enumerate(zip(machines, ("560.00", "570.00"), (100.0, 80.0), strict=True)):
        means = tuple(level + 0.01 * place for place in range(restarts))
        stack = make_executor({"system.nvidia_driver": driver}, machine=machine)
        stamp = f"2026-01-01T0{number}:00:00+00:00"
        results.append(make_result(executor=stack, run_means=means, started_at=stamp))
    (change,) = _history(results).changes
    assert change.effect.high < 0.9
    assert change.moved is (None if words else True)
    assert change.cause.owner == (None if words else "infrastructure SRE")
    assert ("the likely cause" in change.cause.sentence) == (not words)
    assert words in change.basis


def test_what_is_no_point_says_why() -> None:
    void = Validity(verdict=ValidityVerdict.VOID, reasons=("x",))
    assert point_of(make_result(validity=void), Precision.FP32) == "void"
    assert point_of(make_result(), Precision.INT8) == "int8 was not measured"
    assert point_of(make_result(per_precision=(make_precision(throughput=None),)), Precision.FP32) == "no figure"


def test_an_empty_history_is_an_answer() -> None:
    found = read_history([], contract_id="ab" * 32, contract="x", precision=Precision.FP32)
    assert found.points == ()
    assert "no result" in found.note


def _drifting(record_at: int | None) -> History:
    rng = np.random.default_rng(9)
    results = []
    for i in range(48):
        means = tuple(float(100 * (1 - 0.0025 * i) * np.exp(rng.normal(0, 0.005))) for _ in range(5))
        changed: dict[str, object] = {"system.nvidia_driver": "570.00"} if record_at and i >= record_at else {}
        stamp = f"2026-{1 + i // 24:02d}-{1 + i % 24:02d}T00:00:00+00:00"
        results.append(make_result(executor=make_executor(changed), run_means=means, started_at=stamp))
    return _history(results)


def test_a_drift_is_a_slowdown_with_its_size_and_no_step() -> None:
    found = _drifting(None)
    assert found.motion is Motion.DRIFT
    assert found.changes == ()
    assert found.trend is not None
    assert found.trend.low < 1 - 0.0025 * 47 < found.trend.high < 0.9
    assert "0 changes of the level; drift: slower, -1" in found.note


def test_a_record_change_in_a_drift_is_not_blamed_for_it() -> None:
    found = _drifting(20)
    (change,) = found.changes
    assert not change.found
    assert change.moved is False, "the results after it are lower because all of them fall"
    assert change.effect.low < 1 < change.effect.high
    assert "beside the drift" in change.basis


def test_one_that_counts_something_else_empties_no_series() -> None:
    results = _results(5, 5, 1.0, {})
    points = [point for one in results if isinstance(point := point_of(one, Precision.FP32), HistoryPoint)]

    def read(units: str) -> History:
        counted = [point.model_copy(update={"unit": unit}) for point, unit in zip(points, units, strict=True)]
        kept = {"contract_id": results[0].contract_id, "contract": "compared", "precision": Precision.FP32}
        return read_history(counted, **kept)

    newest = read("aaaab")
    assert (newest.unit, len(newest.points)) == ("a", 4)
    assert [line.endswith("counts b, not a") for line in newest.left_out] == [True]
    assert read("abbbb").unit == "b"
    assert read("xaabb").unit == "b", "of as many the newest"
    assert read_history((), contract_id="c", contract="c", precision=Precision.FP32).unit == ""
