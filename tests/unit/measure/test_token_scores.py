"""What is kept of the scores of next tokens: small, exact where it says so, and near enough elsewhere."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from lynxbench.errors import BadResult
from lynxbench.measure.accuracy import compare_outputs
from lynxbench.measure.token_scores import SKETCHED, SMALL, condense
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy
from lynxbench.model.samples import Outputs
from lynxbench.run.worker import read_outputs, write_outputs

VOCABULARY, POSITIONS = 20_000, 60
CHANCE = np.random.default_rng(3)
WHOLE = (4 * CHANCE.standard_normal((POSITIONS, VOCABULARY))).astype(np.float32)
TARGETS = CHANCE.integers(0, VOCABULARY, POSITIONS)


def outputs_of(logits: npt.NDArray[np.generic], targets: npt.NDArray[np.generic] = TARGETS) -> Outputs:
    return Outputs(kind="logits", arrays={"logits": logits, "targets": targets}, inputs="same")


def changed(how: str) -> npt.NDArray[np.float32]:
    noise = CHANCE.standard_normal(WHOLE.shape).astype(np.float32)
    if how == "noise":
        return WHOLE + 0.05 * noise
    if how == "rounded":
        return (np.round(WHOLE * 4) / 4).astype(np.float32)
    if how == "scaled":
        return WHOLE * np.float32(1.02)
    if how == "one token":
        return np.where(np.arange(VOCABULARY) == 77, WHOLE + 100, WHOLE).astype(np.float32)
    if how == "few tokens":
        return np.where(np.arange(VOCABULARY) % 997 == 0, WHOLE + 5, WHOLE).astype(np.float32)
    return noise * 4  # another model altogether


def compared(reference: Outputs, candidate: Outputs) -> Accuracy:
    return compare_outputs(reference, candidate, None, reference_precision=Precision.FP32)


@pytest.mark.parametrize("how", ["noise", "rounded", "scaled", "one token", "few tokens", "another"])
def test_sketches_say_what_the_scores_say(how: str) -> None:
    reference, candidate = outputs_of(WHOLE), outputs_of(changed(how))
    exact, kept = compared(reference, candidate).metrics, compared(condense(reference), condense(candidate)).metrics
    assert exact.keys() == kept.keys()
    for name in exact.keys() - {"relative-error", "cosine"}:
        assert kept[name] == pytest.approx(exact[name], rel=1e-6, abs=1e-9), name
    assert kept["relative-error"] == pytest.approx(exact["relative-error"], rel=0.15)
    assert 1 - (kept["cosine"] or 0) == pytest.approx(1 - (exact["cosine"] or 0), rel=0.3, abs=2e-3)


def test_equal_scores_lose_nothing() -> None:
    kept = compared(condense(outputs_of(WHOLE)), condense(outputs_of(WHOLE.copy()))).metrics
    assert kept["relative-error"] == 0
    assert kept["top1"] == 1
    assert kept["perplexity-change"] == 0


def test_what_is_kept_is_small(tmp_path: Path) -> None:
    write_outputs(tmp_path / "whole.npz", outputs_of(WHOLE))
    write_outputs(tmp_path / "kept.npz", condense(outputs_of(WHOLE)))
    assert (tmp_path / "kept.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size / 25
    again = read_outputs(tmp_path / "kept.npz")
    assert again.kind == SKETCHED
    assert compared(again, condense(outputs_of(WHOLE))).metrics["relative-error"] == 0


def test_whole_scores_of_an_earlier_run_are_compared_with_kept_ones() -> None:
    reference, candidate = outputs_of(WHOLE), outputs_of(changed("noise"))
    mixed = compared(reference, condense(candidate)).metrics
    assert mixed == compared(condense(reference), condense(candidate)).metrics


@pytest.mark.parametrize("spoilt", [math.nan, math.inf, -math.inf])
def test_scores_that_are_no_numbers_are_told(spoilt: float) -> None:
    broken = WHOLE.copy()
    broken[5, 7] = spoilt
    told = compared(condense(outputs_of(WHOLE)), condense(outputs_of(broken)))
    assert told.verdict == "no-go"
    assert told.metrics["non-finite"] == pytest.approx(1 / WHOLE.size)


def test_small_vocabularies_and_other_answers_stay_whole() -> None:
    small = outputs_of(WHOLE[:, :SMALL], np.minimum(TARGETS, SMALL - 1))
    assert condense(small) is small
    vectors = Outputs(kind="embedding", arrays={"vectors": WHOLE}, inputs="same")
    assert condense(vectors) is vectors


def test_other_texts_and_vocabularies_are_not_compared() -> None:
    kept = condense(outputs_of(WHOLE))
    shifted = condense(outputs_of(WHOLE, (TARGETS + 1) % VOCABULARY))
    with pytest.raises(BadResult, match="targets differ"):
        compared(kept, shifted)
    narrower = condense(outputs_of(WHOLE[:, :10_000], TARGETS % 10_000))
    with pytest.raises(BadResult, match="differ"):
        compared(kept, narrower)


@pytest.mark.parametrize("name", ["sketch", "first", "log_total", "own", "vocabulary", "non_finite", "targets"])
def test_a_part_that_is_missing_is_one_line(name: str) -> None:
    kept = condense(outputs_of(WHOLE))
    lacking = Outputs(kept.kind, {key: part for key, part in kept.arrays.items() if key != name}, kept.inputs)
    with pytest.raises(BadResult, match=f"lack '{name}'"):
        compared(kept, lacking)


def test_the_digest_is_of_the_whole_scores() -> None:
    first, second = condense(outputs_of(WHOLE)), condense(outputs_of(np.nextafter(WHOLE, np.float32(9))))
    assert not np.array_equal(first.arrays["digest"], second.arrays["digest"])


def test_what_is_kept_does_not_grow_with_the_vocabulary(tmp_path: Path) -> None:
    """128,256 tokens, as Llama 3.1 has them: half a megabyte a position, were the scores kept whole."""
    chance, positions = np.random.default_rng(5), 48
    whole = chance.standard_normal((positions, 128_256), dtype=np.float32)
    file = tmp_path / "outputs.npz"
    write_outputs(file, condense(outputs_of(whole, chance.integers(0, 128_256, positions))))
    assert whole.nbytes > positions * 0.5e6
    assert file.stat().st_size < positions * 2.5e3
