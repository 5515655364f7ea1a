"""Agreement of two servers, held against planted truth: what flipped, what moved, and what is only noise."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.errors import BadResult
from lynxbench.measure.served_answers import AnswerNotes, ServedAnswers, agree, answers_of, judge_answers
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy

PROMPTS, TOKENS = 40, 8
NOTES = AnswerNotes(greedy="set", task="task", text="text")


def answers(
    flips: dict[int, int] | None = None,
    *,
    own_flips: dict[int, int] | None = None,
    moved: float = 0.0,
    jitter: float = 0.0,
    margin: float = 1.0,
    notes: AnswerNotes = NOTES,
    marks: list[int] | None = None,
    seed: int = 1,
) -> ServedAnswers:
    """`flips`: prompt -> token from which its answer is another one; `own_flips` in the second asking alone."""
    random = np.random.default_rng(seed)
    prefixes = np.tile(np.arange(1, PROMPTS * TOKENS + 1, dtype=np.uint64).reshape(PROMPTS, TOKENS), (2, 1, 1))
    for asking, parted in ((slice(None), flips or {}), (slice(1, 2), own_flips or {})):
        for row, place in parted.items():
            prefixes[asking, row, place:] += np.uint64(10_000)
    base = -np.random.default_rng(0).uniform(0.1, 2.0, (PROMPTS, TOKENS))
    logprobs = base + moved + random.normal(0, jitter, (2, PROMPTS, TOKENS))
    text = -np.random.default_rng(2).uniform(1, 3, (6, 10)) + moved + random.normal(0, jitter, (2, 6, 10))
    return ServedAnswers(
        notes, prefixes, logprobs, np.full((PROMPTS, TOKENS), margin), text, np.array(marks or [], dtype=np.int8)
    )


def judged(candidate: ServedAnswers, reference: ServedAnswers | None, policy: AccuracyPolicy | None = None) -> Accuracy:
    return judge_answers(candidate, reference, policy, Precision.FP8, Precision.BF16, "a" * 64)


def test_the_same_answers_agree_whole() -> None:
    accuracy = judged(answers(), answers())
    assert accuracy.metrics["token-agreement"] == accuracy.metrics["top1"] == 1.0
    assert accuracy.metrics["token-agreement-low"] == pytest.approx(0.912, abs=1e-3)
    assert accuracy.metrics["agreed-prefix"] == TOKENS
    assert accuracy.metrics["logprob-change"] == accuracy.metrics["logprob-error"] == 0
    assert accuracy.metrics["perplexity-change"] == 0
    assert (accuracy.verdict, accuracy.against, accuracy.reference) == ("no policy", "a" * 64, Precision.BF16)


def test_planted_flips_are_counted_with_their_place() -> None:
    accuracy = judged(answers({row: row % TOKENS for row in range(20)}), answers())
    kept = sum(row % TOKENS for row in range(20)) + 20 * TOKENS
    assert accuracy.metrics["token-agreement"] == 0.5
    assert accuracy.metrics["agreed-prefix"] == pytest.approx(kept / PROMPTS)
    assert accuracy.metrics["top1"] == pytest.approx(kept / (kept + 20))
    assert "not told from" not in " ".join(accuracy.notes)
    assert "20 of 40 prompts agree in all 8 tokens; the noisier server agrees with itself in 40" in accuracy.notes


def test_a_difference_no_larger_than_a_servers_own_is_nobodys() -> None:
    noisy = answers(own_flips=dict.fromkeys(range(10), 3))
    accuracy = judged(answers(dict.fromkeys(range(5, 15), 3)), noisy)
    assert accuracy.metrics["token-agreement"] == accuracy.metrics["token-agreement-noise"] == 0.75
    assert any("not told from a server's own noise" in note for note in accuracy.notes)


def test_level_tokens_may_change_places() -> None:
    level = judged(answers(dict.fromkeys(range(10), 2)), answers(margin=0.05))
    assert (level.metrics["token-agreement"], level.metrics["level-agreement"]) == (0.75, 1.0)
    clear = judged(answers(dict.fromkeys(range(10), 2)), answers(margin=0.5))
    assert clear.metrics["level-agreement"] == 0.75


def test_moved_log_probabilities_are_found_with_their_interval_and_beside_the_noise() -> None:
    accuracy = judged(answers(moved=-0.05, jitter=0.01, seed=3), answers(jitter=0.01, seed=4))
    low, high = accuracy.metrics["logprob-change-low"], accuracy.metrics["logprob-change-high"]
    assert low is not None
    assert high is not None
    assert low < -0.05 < high < 0
    assert accuracy.metrics["logprob-error-noise"] == pytest.approx(0.0113, rel=0.2)  # mean |difference| of two draws
    change = accuracy.metrics["perplexity-change"]
    assert change == pytest.approx(np.expm1(0.05), abs=0.01)


def test_answers_after_the_first_flip_are_not_compared() -> None:
    reference, candidate = answers(), answers({0: 1})
    moved = candidate.logprobs.copy()
    moved[:, 0, 1:] += 100.0
    other = ServedAnswers(NOTES, candidate.prefixes, moved, candidate.margins, candidate.text_logprobs, candidate.marks)
    assert judged(other, reference).metrics["logprob-error"] == 0


def test_answers_that_end_early_together_agree() -> None:
    a = np.array([[1, 2, 0, 0], [1, 2, 3, 0]], dtype=np.uint64)
    b = np.array([[1, 2, 0, 0], [1, 2, 0, 0]], dtype=np.uint64)
    agreement = agree(a, b, np.zeros((2, 4)), np.zeros((2, 4)))
    assert agreement.agreed.tolist() == [2, 2]
    assert agreement.whole.tolist() == [True, False]


def test_prompts_without_an_answer_are_left_out_and_said() -> None:
    candidate = answers({0: 3}, notes=AnswerNotes(greedy="set", text="text", failed=1))
    candidate.prefixes[1, 0] = 0
    accuracy = judged(candidate, answers())
    assert (accuracy.metrics["greedy-prompts"], accuracy.metrics["token-agreement"]) == (PROMPTS - 1, 1.0)
    assert any("1 prompts of the greedy set had no answer" in note for note in accuracy.notes)


def test_another_set_is_not_compared() -> None:
    accuracy = judged(answers(), answers(notes=AnswerNotes(greedy="other", text="other", task="other"), marks=[1]))
    assert "token-agreement" not in accuracy.metrics
    assert "perplexity-change" not in accuracy.metrics
    assert any("another greedy set" in note for note in accuracy.notes)


def test_random_weights_carry_no_sentence_about_a_task() -> None:
    notes = AnswerNotes(greedy="set", task="task", text="text", random_weights=True)
    accuracy = judged(answers(notes=notes, marks=[1, 0]), answers(notes=notes, marks=[1, 1]))
    assert not [name for name in accuracy.metrics if name.startswith(("task", "perplexity"))]
    assert accuracy.metrics["token-agreement"] == 1.0
    assert "text-logprob-change" in accuracy.metrics
    assert any("weights are random" in note for note in accuracy.notes)


@pytest.mark.parametrize(
    ("metric", "allowed", "verdict"),
    [
        (AccuracyMetric.TASK, 0.2, "no-go"),
        (AccuracyMetric.TASK, 0.3, "go"),
        (AccuracyMetric.TOP1, 0.01, "no-go"),
        (AccuracyMetric.TOP1, 0.1, "go"),
        (AccuracyMetric.COSINE, 0.5, "not measured"),
    ],
)
def test_the_policy_judges_the_loss(metric: AccuracyMetric, allowed: float, verdict: str) -> None:
    marks = [1] * 40
    policy = AccuracyPolicy.model_construct(metric=metric, largest_loss=allowed)
    candidate = answers(dict.fromkeys(range(20), 4), marks=[0] * 10 + marks[10:])
    accuracy = judged(candidate, answers(marks=marks), policy)
    assert accuracy.verdict == verdict
    if metric is AccuracyMetric.TASK:
        assert accuracy.loss == pytest.approx(0.25)


def test_a_loss_within_a_servers_own_noise_is_no_no_go() -> None:
    policy = AccuracyPolicy.model_construct(metric=AccuracyMetric.TOP1, largest_loss=0.001)
    noisy = answers(own_flips=dict.fromkeys(range(20), 0))
    accuracy = judged(answers(dict.fromkeys(range(5), 4)), noisy, policy)
    assert accuracy.verdict == "not measured"
    assert any("ask more prompts" in note for note in accuracy.notes)


def test_alone_it_is_the_reference_with_its_noise() -> None:
    accuracy = judged(answers(own_flips={0: 0}, marks=[1, 1, 0, -1]), None)
    assert (accuracy.verdict, accuracy.is_reference, accuracy.against) == ("reference", True, None)
    assert accuracy.metrics["self-agreement"] == pytest.approx(39 / 40)
    assert accuracy.metrics["task"] == pytest.approx(2 / 3)


def test_kept_and_read_again_it_is_the_same() -> None:
    kept = answers({3: 2}, moved=0.1, marks=[1, 0])
    again = answers_of(kept.outputs())
    assert judged(again, None) == judged(kept, None)
    broken = kept.outputs()
    broken.arrays["margins"] = np.zeros((1, 1))
    with pytest.raises(BadResult, match="do not belong together"):
        answers_of(broken)
    del broken.arrays["notes"]
    with pytest.raises(BadResult, match="cannot be read"):
        answers_of(broken)


# --- answers that cannot tell ----------------------------------------------------------------------------------------

KEEPS = AccuracyPolicy(metric=AccuracyMetric.TOP1, largest_loss="5 %")  # type: ignore[arg-type]


def repeated(distinct: int, *, margin: float = 1.0, tokens: float = 1.0) -> ServedAnswers:
    """Answers of which so many differ, the others being one and the same; `tokens` scales how the text's differ."""
    usual = answers(margin=margin)
    prefixes = usual.prefixes.copy()
    prefixes[:, distinct:] = prefixes[:, :1]
    return ServedAnswers(NOTES, prefixes, usual.logprobs, usual.margins, tokens * usual.text_logprobs, usual.marks)


@pytest.mark.parametrize(("distinct", "verdict"), [(1, "undetermined"), (2, "undetermined"), (20, "go"), (40, "go")])
def test_agreement_on_one_answer_to_every_prompt_is_no_go(distinct: int, verdict: str) -> None:
    accuracy = judged(repeated(distinct), repeated(distinct), KEEPS)
    assert accuracy.metrics["top1"] == 1.0
    assert accuracy.verdict == verdict
    told = [note for note in accuracy.notes if "tells nothing; measure with trained weights" in note]
    assert bool(told) is (verdict == "undetermined")
    assert all(("one answer" if distinct == 1 else "2 answers") in note for note in told)


def test_half_of_an_answer_that_all_prompts_share_leaves_the_other_half_to_tell() -> None:
    usual = answers()
    prefixes = usual.prefixes.copy()
    prefixes[:, :, : TOKENS // 2] = prefixes[:, :1, : TOKENS // 2]
    shared = ServedAnswers(NOTES, prefixes, usual.logprobs, usual.margins, usual.text_logprobs, usual.marks)
    assert judged(shared, shared, KEEPS).verdict == "go"


@pytest.mark.parametrize("metric", [AccuracyMetric.TOP1, AccuracyMetric.PERPLEXITY])
@pytest.mark.parametrize("flips", [{}, dict.fromkeys(range(30), 0)])
def test_level_scores_tell_nothing_however_varied_the_answers(metric: AccuracyMetric, flips: dict[int, int]) -> None:
    policy = AccuracyPolicy(metric=metric, largest_loss="5 %")  # type: ignore[arg-type]
    accuracy = judged(answers(flips), answers(margin=1e-6), policy)
    assert accuracy.verdict == "undetermined"
    assert any("scores are level" in note for note in accuracy.notes)


def test_a_text_whose_tokens_are_all_equally_likely_is_level_where_no_margins_are_given() -> None:
    level = repeated(40, margin=np.nan, tokens=1e-3)
    assert judged(level, level, KEEPS).verdict == "undetermined"
    assert judged(repeated(40, margin=np.nan), repeated(40, margin=np.nan), KEEPS).verdict == "go"


def test_a_task_is_judged_by_its_labels_whatever_the_greedy_answers() -> None:
    policy = AccuracyPolicy(metric=AccuracyMetric.TASK, largest_loss="5 %")  # type: ignore[arg-type]
    marks = [1, 0, 1, 1]
    same = answers(margin=1e-6, marks=marks)
    assert judged(same, same, policy).verdict == "go"


def test_results_of_earlier_editions_keep_their_verdict() -> None:
    level = answers(margin=1e-6)
    before = judge_answers(level, level, KEEPS, Precision.FP8, Precision.BF16, "a" * 64, rules=6)
    assert (before.verdict, any("level" in note for note in before.notes)) == ("go", False)


def test_another_greedy_set_is_not_asked_whether_it_tells() -> None:
    other = AnswerNotes(greedy="other", text="text", task="task")
    accuracy = judged(answers(), answers(margin=1e-6, notes=other), KEEPS)
    assert accuracy.verdict == "not measured"
