"""How far the accuracy gate's refusals went, as the search is told of them; what a confirmation may be called."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from compared import make_result
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput, BadResult
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.experiment import tuning_outcome
from lynxbench.experiment.cells import space_of
from lynxbench.experiment.searching import Method
from lynxbench.experiment.tuning_folder import ConfirmationPair, TuningFolder
from lynxbench.experiment.tuning_outcome import (
    SPARE_PAIRS,
    ProofRule,
    confirmation_seeds,
    describe_tuning,
    further_seed,
    read_tuning,
    refused_far,
)
from lynxbench.measure.responses import THROUGHPUT
from lynxbench.model.analyses import analysis_id
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy
from lynxbench.model.tuning import Trial, TrialStatus, TuningVerdict
from lynxbench.model.verdicts import SteadyVerdict
from planted import Plant, doubted, unsteady

BOUNDED = Path(__file__).parents[3] / "results" / "h200" / "contracts" / "llm-decode-bounded.yaml"
"""Allows a loss of 10 %."""


def lost(loss: float | None) -> Accuracy:
    return Accuracy(
        reference=Precision.BF16, is_reference=False, metrics={"relative-error": loss}, inputs="planted", loss=loss,
        verdict="no-go",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "status", "expected"),
    [
        (lost(0.61), TrialStatus.REFUSED, True),
        (lost(0.2001), TrialStatus.REFUSED, True),
        (lost(0.18), TrialStatus.REFUSED, False),  # refused, but another setting could move it under the limit
        (lost(None), TrialStatus.REFUSED, False),
        ("no answers were kept", TrialStatus.REFUSED, False),
        (lost(0.61), TrialStatus.FAILED, False),
        (lost(0.61), TrialStatus.MEASURED, False),
    ],
)
def test_far_is_twice_what_the_contract_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Accuracy | str, status: TrialStatus, expected: bool
) -> None:
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, "latency-p50", 1, 5, datetime.now(UTC))
    folder.set(baseline_run="baseline")
    asked = list[tuple[str, str]]()

    def held(reference: Path, candidate: Path, _contract: object) -> Accuracy | str:
        asked.append((reference.name, candidate.name))
        return answer

    monkeypatch.setattr(tuning_outcome, "hold_against", held)
    trial = Trial(number=0, setting={"workload.precision": "fp8"}, status=status, run="candidate")
    assert refused_far(folder, trial) is expected
    assert asked == ([("baseline", "candidate")] if status is TrialStatus.REFUSED else [])


def test_without_a_policy_or_with_no_loss_allowed_nothing_is_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No multiple of nothing: where every difference is refused, none is larger than another."""
    monkeypatch.setattr(tuning_outcome, "hold_against", lambda *_: lost(0.9))
    text = BOUNDED.read_text(encoding="utf-8")
    allowed = "largest_loss: 10 %"
    policy = "  accuracy: {metric: relative-error, largest_loss: 10 %}\n"
    assert policy in text
    for number, changed in enumerate((text.replace(allowed, "largest_loss: 0 %"), text.replace(policy, ""))):
        path = tmp_path / f"{number}.yaml"
        path.write_text(changed, encoding="utf-8")
        folder = TuningFolder.create(
            tmp_path / str(number), read_contract(str(path)), Method.MODEL, "latency-p50", 1, 5, datetime.now(UTC)
        )
        assert not refused_far(folder, Trial(number=0, setting={}, status=TrialStatus.REFUSED, run="candidate"))


FASTER, SLOWER = (1.49, 1.5, 1.51, 1.5, 1.5), (0.79, 0.8, 0.81, 0.8, 0.8)


@pytest.mark.parametrize(
    ("ratios", "plant", "verdict", "why"),
    [
        (FASTER, None, TuningVerdict.IMPROVED, ""),
        (FASTER[:4], None, TuningVerdict.INDICATED, "4 pairs, where a verdict rests on 5"),
        (FASTER, doubted("the host took the processor away"), TuningVerdict.INDICATED, "the host took the processor"),
        (FASTER, unsteady(SteadyVerdict.NOT_STEADY), TuningVerdict.INDICATED, "no steady state shown"),
        (SLOWER, None, TuningVerdict.WORSE, ""),
        (SLOWER, doubted("the host took the processor away"), TuningVerdict.NO_GAIN, "the host took the processor"),
    ],
)
def test_the_strongest_word_needs_five_pairs_of_sound_processes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratios: tuple[float, ...],
    plant: Plant | None,
    verdict: TuningVerdict,
    why: str,
) -> None:
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, THROUGHPUT, 1, 5, datetime.now(UTC))
    values, pairs = dict[str, float](), list[ConfirmationPair]()
    for number, ratio in enumerate(ratios):
        pair = ConfirmationPair(seed=number + 1, baseline_run=f"base-{number}", tuned_run=f"tuned-{number}")
        pairs.append(pair)
        values |= {f"base-{number}": 100.0 + number / 100, f"tuned-{number}": (100.0 + number / 100) * ratio}
    for name in values:
        (folder.runs / name).mkdir(parents=True)
        sound = make_result()
        write_result(
            folder.runs / name / RESULT_FILE,
            plant(sound).sealed() if plant is not None and name == "tuned-0" else sound,
        )
    space = space_of(contract)
    folder.set(pairs=tuple(pairs), chosen=(0,) * len(space.sizes), baseline_run="base-0")
    monkeypatch.setattr(tuning_outcome, "visit_response", lambda path, _: values[path.name])
    monkeypatch.setattr(tuning_outcome, "hold_against", lambda *_: "no answers were kept")
    document = describe_tuning(folder, space, datetime.now(UTC))
    assert document.verdict is verdict
    assert why in document.sentence
    assert ("nothing is proven by it" in document.sentence) == bool(why)
    earlier = describe_tuning(folder, space, datetime.now(UTC), rule=ProofRule.NO_GATE)
    assert earlier.verdict is (TuningVerdict.IMPROVED if ratios[0] > 1 else TuningVerdict.WORSE)


def confirmed(
    folder: TuningFolder, monkeypatch: pytest.MonkeyPatch, ratios: tuple[float, ...], unsound: tuple[int, ...]
) -> None:
    """Pairs with these gains; the tuned processes of some are doubtful."""
    values = dict[str, float]()
    pairs = list(folder.state.pairs)
    for number in range(len(pairs), len(ratios)):
        pairs.append(ConfirmationPair(seed=number + 1, baseline_run=f"base-{number}", tuned_run=f"tuned-{number}"))
        for name in (f"base-{number}", f"tuned-{number}"):
            (folder.runs / name).mkdir(parents=True)
            doubtful = number in unsound and name.startswith("tuned")
            result = doubted("the host took the processor away")(make_result()).sealed() if doubtful else make_result()
            write_result(folder.runs / name / RESULT_FILE, result)
    for number, ratio in enumerate(ratios):
        values |= {f"base-{number}": 100.0 + number / 100, f"tuned-{number}": (100.0 + number / 100) * ratio}
    sizes = space_of(folder.state.contract).sizes
    folder.set(pairs=tuple(pairs), chosen=(0,) * len(sizes), baseline_run="base-0")
    monkeypatch.setattr(tuning_outcome, "visit_response", lambda path, _: values[path.name])
    monkeypatch.setattr(tuning_outcome, "hold_against", lambda *_: "no answers were kept")


@pytest.mark.parametrize(
    ("ratios", "unsound", "verdict", "why"),
    [
        ((1.30, 1.31, 1.30, 1.32, 1.31, 1.30), (2,), TuningVerdict.IMPROVED, "1 of 6 pairs are no sound evidence"),
        ((1.30, 1.31, 1.30, 1.32, 1.31), (2,), TuningVerdict.INDICATED, "nothing is proven by it: "),
        # six sound pairs show nothing by themselves: a doubtful one must not lend them its gain, nor they theirs to it
        ((1.01, 0.99, 1.02, 0.98, 1.01, 0.99, 9.0), (6,), TuningVerdict.NO_GAIN, "no sure gain"),
        ((1.30, 1.31, 1.30, 1.32, 1.31, 0.10), (5,), TuningVerdict.NO_GAIN, "do not say the same by themselves"),
        ((0.80, 0.81, 0.80, 0.82, 0.81, 0.80), (0,), TuningVerdict.WORSE, "the others say the same"),
    ],
)
def test_a_pair_that_is_no_sound_evidence_is_set_beside_five_that_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratios: tuple[float, ...],
    unsound: tuple[int, ...],
    verdict: TuningVerdict,
    why: str,
) -> None:
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, THROUGHPUT, 1, 5, datetime.now(UTC))
    confirmed(folder, monkeypatch, ratios, unsound)
    document = describe_tuning(folder, space_of(contract), datetime.now(UTC))
    assert document.verdict is verdict
    assert why in document.sentence
    # before, one process that was not sound kept any number of pairs from proving something
    before = describe_tuning(folder, space_of(contract), datetime.now(UTC), rule=ProofRule.EVERY_PAIR)
    assert before.verdict in (TuningVerdict.INDICATED, TuningVerdict.NO_GAIN)
    assert "nothing is proven by it: " in before.sentence


def test_a_pair_that_gave_nothing_is_told_beside_five_that_prove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, THROUGHPUT, 1, 5, datetime.now(UTC))
    confirmed(folder, monkeypatch, (1.30, 1.31, 0.70, 1.32, 1.31, 1.30), ())
    pairs = folder.state.pairs
    folder.set(pairs=(*pairs[:2], pairs[2].model_copy(update={"tuned_run": ""}), *pairs[3:]))
    document = describe_tuning(folder, space_of(contract), datetime.now(UTC))
    assert document.verdict is TuningVerdict.IMPROVED
    assert "1 of 6 pairs are no sound evidence (a process of it gave nothing)" in document.sentence


def test_a_further_pair_is_taken_where_it_can_still_make_up_for_an_unsound_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = read_contract(str(BOUNDED))

    def after(number: int, unsound: tuple[int, ...], confirmations: int = 5) -> int | None:
        out = tmp_path / f"{number}-{len(unsound)}-{confirmations}"
        folder = TuningFolder.create(out, contract, Method.MODEL, THROUGHPUT, 1, confirmations, datetime.now(UTC))
        confirmed(folder, monkeypatch, (1.1,) * number, unsound)
        seed = further_seed(folder, folder.state.pairs)
        seeds = confirmation_seeds(folder.state, spare=SPARE_PAIRS)
        assert seed is None or (seed == seeds[number] and seed not in seeds[:number])
        return seed

    assert after(5, ()) is None
    assert after(5, (1,)) is not None
    assert after(6, (1,)) is None
    assert after(6, (1, 5)) is not None
    assert after(5, (0, 1, 2)) is not None
    assert after(5, (0, 1, 2, 3)) is None  # three spare pairs cannot make up for four
    assert after(8, (0, 1, 2, 3)) is None
    assert after(2, (0,), confirmations=2) is None  # no verdict could rest on two


PRINTED = BOUNDED.parents[1] / "tunings" / "llm-decode-bounded.json"


def test_a_tuning_is_read_as_it_was_printed_kept_or_left(tmp_path: Path) -> None:
    document = read_tuning(PRINTED)
    assert analysis_id(document) == json.loads(PRINTED.read_text())["analysis_id"]
    (tmp_path / "outcome.json").write_text(document.model_dump_json(by_alias=True))
    assert read_tuning(tmp_path) == document
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, THROUGHPUT, 1, 5, datetime.now(UTC))
    unfinished = read_tuning(folder.path)
    assert (unfinished.verdict, unfinished.finished_at) == (TuningVerdict.NOTHING_PASSED, None)


def test_a_tuning_that_was_changed_after_it_was_printed_is_not_shown(tmp_path: Path) -> None:
    changed = tmp_path / "changed.json"
    changed.write_text(PRINTED.read_text().replace('"improved"', '"no gain confirmed"'))
    with pytest.raises(BadResult, match="analysis_id does not match"):
        read_tuning(changed)
    changed.write_text('{"tuning_id": 3}')
    with pytest.raises(BadResult, match="damaged: "):
        read_tuning(changed)
    with pytest.raises(BadInput, match="give a tuning's folder"):
        read_tuning(tmp_path / "nothing.json")
