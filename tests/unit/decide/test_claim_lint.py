from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from ruamel.yaml import YAML

from lynxbench.decide.claim_lint import lint_text, lint_values
from lynxbench.decide.claim_text import claimed_in_text
from lynxbench.decide.claiming import lint_claim, read_claim
from lynxbench.errors import BadInput
from lynxbench.model.claims import Context

DATA = Path(__file__).resolve().parents[2] / "data" / "claims"
LABELLED = YAML(typ="safe").load((DATA / "labelled.yaml").read_text(encoding="utf-8"))


RATIOS = YAML(typ="safe").load((DATA / "ratios.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", RATIOS, ids=lambda one: one["text"][:40])
def test_a_ratio_is_a_claim_of_a_speed_a_cost_or_a_capacity(line: dict[str, object]) -> None:
    """Found: `latency is halved` was no claim, and `a third of the cost` neither."""
    claimed = [one for one in lint_claim(str(line["text"]), "test").claimed if one.kind == "ratio"]
    assert bool(claimed) is line["ratio"]
    assert all(one.value and one.unit and one.text in str(line["text"]) for one in claimed)


def test_the_labelled_ratios_are_in_balance() -> None:
    truths = [line["ratio"] for line in RATIOS]
    assert len({line["text"] for line in RATIOS}) == len(truths) >= 130
    assert truths.count(True) == truths.count(False)


def test_there_are_a_hundred_labelled_claims() -> None:
    assert len(LABELLED) >= 100
    assert len({claim["text"] for claim in LABELLED}) == len(LABELLED)


def missing_from(claim: dict[str, object]) -> list[str]:
    """What a labelled claim fails to state, in the lint's order; older labels list it, newer ones what is stated."""
    if "missing" in claim:
        return list(claim["missing"])  # type: ignore[call-overload]
    stated = set(claim["states"])  # type: ignore[call-overload]
    assert stated <= {context.value for context in Context}, "a label that is none"
    return [context.value for context in Context if context.value not in stated]


@pytest.mark.parametrize("claim", LABELLED, ids=lambda one: one["text"][:40])
def test_missing_contexts_of_a_claim_are_found_exactly(claim: dict[str, object]) -> None:
    report = lint_claim(str(claim["text"]), "test")
    assert [one.value for one in report.missing] == missing_from(claim)
    most = next(
        (letter for limit, letter in ((0, "A"), (2, "B"), (5, "C"), (8, "D")) if len(report.missing) <= limit), "F"
    )
    assert report.grade == claim.get("grade", most)
    assert len(report.questions) == len(report.missing)


@pytest.mark.parametrize("claim", [one for one in LABELLED if "claimed" in one], ids=lambda one: one["text"][:40])
def test_figures_of_a_claim_are_read_right(claim: dict[str, object]) -> None:
    """`6,120 ± 80 tokens/s` is one figure, `8x H200` is no ratio, and `5 times` no speed-up."""
    report = lint_claim(str(claim["text"]), "test")
    assert [f"{one.value} {one.unit}" for one in report.claimed] == claim["claimed"]


@pytest.mark.parametrize(
    "claim", [one for one in LABELLED if "model" in one or "device" in one], ids=lambda one: one["text"][:40]
)
def test_model_and_device_are_read_whole(claim: dict[str, object]) -> None:
    report = lint_claim(str(claim["text"]), "test")
    words = {one.context: one.words for one in report.stated}
    for context, label in ((Context.MODEL, "model"), (Context.DEVICE, "device")):
        assert words.get(context) == claim.get(label, words.get(context))


def test_which_device_and_how_many_is_asked_for() -> None:
    report = lint_claim("Llama 3.1 8B reaches 12,500 tokens/s on one card.", "test")
    assert any("which device, how many" in question for question in report.questions)


@pytest.mark.parametrize(
    ("file", "form", "missing"),
    [
        ("vllm.json", "vllm result", ["device and count", "precision", "stack versions", "warm-up", "accuracy", "power"]),  # noqa: E501
        ("aiperf.json", "aiperf result", ["device and count", "precision", "stack versions", "warm-up", "accuracy", "power"]),  # noqa: E501
        ("guidellm.json", "guidellm result", ["device and count", "precision", "stack versions", "accuracy", "power"]),
        (
            "mlperf_summary.txt",
            "mlperf result",
            ["model", "device and count", "precision", "lengths", "stack versions", "warm-up", "accuracy", "power"],
        ),
        (
            "mlperf_row.csv",
            "row of a results table",
            ["batch or concurrency", "lengths", "duration", "warm-up", "percentile", "power"],
        ),
        ("claim.yaml", "YAML", ["device and count", "stack versions", "regime", "warm-up", "accuracy", "power"]),
    ],
)  # fmt: skip
def test_missing_contexts_of_real_files_are_found_exactly(file: str, form: str, missing: list[str]) -> None:
    report = lint_claim(read_claim(DATA / file), file)
    assert report.form == form
    assert [one.value for one in report.missing] == missing
    assert report.claimed


def test_an_invalid_run_of_mlperf_is_said_to_be_one() -> None:
    report = lint_claim(read_claim(DATA / "mlperf_summary.txt"), "mlperf")
    assert any("INVALID" in warning for warning in report.warnings)


def test_what_must_not_be_read_as_evidence_is_warned_about() -> None:
    report = lint_claim("Up to 3x faster, TDP 700 W, lossless.", "test")
    said = " ".join(report.warnings)
    for word in ("nameplate", "asserted", "envelope", "both of its sides"):
        assert word in said
    assert Context.POWER in report.missing
    assert Context.ACCURACY in report.missing


def test_rates_of_two_kinds_in_one_sentence_are_not_held_against_each_other() -> None:
    report = lint_claim("We do 900 tokens/s where they do 40 requests/s.", "test")
    assert any("tokens" in warning and "requests" in warning for warning in report.warnings)


def test_without_model_or_load_it_compares_with_nothing() -> None:
    report = lint_claim("12 ms on a card.", "test")
    assert report.comparable_with[0].startswith("nothing")


@pytest.mark.parametrize("text", ["", "   \n"])
def test_an_empty_claim_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="empty"):
        lint_claim(text, "test")


def test_a_folder_is_no_claim(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="folder"):
        read_claim(tmp_path)


def test_text_without_a_figure_says_so() -> None:
    report = lint_claim("It is very fast.", "test")
    assert "no figure" in report.warnings[0]


@pytest.mark.parametrize(
    "text",
    ["4.614e-07 s latency", "1e6 tok/s", "30 tokens/s/user", "5,100 tok/s per GPU", "1000–1200 tokens/s", "30-40 ms",
     "between 1000 and 1,200 tokens per second", "1.234,5 Tokens/s", "12,5 Tokens/s", "1.234.567 tokens/s",
     "12 345,6 tokens/s", "1'234 tokens/s", "1’234.5 tokens/s", "2,5 ms", "0,8 s TTFT", "0,5-0,8 s latency",
     "3-4x faster", "1,9x faster"],
)  # fmt: skip
def test_a_figure_is_quoted_whole(text: str) -> None:
    """Found: `07 s latency`, `1200 tokens/s` of a range, a rate of one GPU without its GPU; `234 tokens/s` of 1'234,
    and nothing at all where a comma is the decimal sign."""
    assert [one.text for one in lint_claim(text, "test").claimed] == [text]


@pytest.mark.parametrize(
    "text",
    ["twice as fast", "three times the throughput", "2x faster", "halves latency", "halves the p99 latency",
     "doubles throughput", "double the throughput", "half the cost", "cuts p99 latency in half",
     "reduces latency by up to 40%", "30 % improvement", "3-fold", "an order of magnitude faster", "ten times faster"],
)  # fmt: skip
def test_a_ratio_in_words_is_a_claim(text: str) -> None:
    """Found: `twice as fast` had no figure, and nothing was there to check."""
    report = lint_claim(f"Our engine: {text} than theirs.", "test")
    assert [(one.text, one.kind) for one in report.claimed] == [(text, "ratio")]
    assert "a ratio needs both of its sides in full" in report.warnings


@pytest.mark.parametrize(
    "text",
    ["We ran it twice.", "It runs two times a day.", "half precision", "double precision", "half of the requests",
     "halved the batch size", "5-fold cross-validation", "twice as many nodes", "on 2x H100", "1,2,3 tokens/s"],
)  # fmt: skip
def test_a_count_in_words_is_no_ratio(text: str) -> None:
    assert lint_claim(text, "test").claimed == ()


@pytest.mark.parametrize("text", ["٣٫١ times faster", "Llama-3 - 1200 tokens/s"])
def test_no_figure_is_made_of_parts_of_another(text: str) -> None:
    assert [one.text for one in lint_claim(text, "test").claimed] in ([], ["1200 tokens/s"])


@pytest.mark.parametrize(
    "numbers", ["9" * 3000, "9." * 9000, "9.." * 6000, "1," * 9000, "123 " * 4900, "٣" * 2000, "1\u202f" * 900]
)
@pytest.mark.parametrize("key", [None, "claim"])
def test_numbers_in_a_row_are_no_claim(numbers: str, key: str | None) -> None:
    """They took up to two minutes to read."""
    text = f"2x faster {numbers} tokens/s"
    with pytest.raises(BadInput, match="characters of numbers in a row are no claim"):
        lint_text(text, "a page") if key is None else lint_values({key: text}, "a page", "yaml")


def test_figures_in_columns_are_read() -> None:
    report = lint_text(
        "batch 1 2 4 8 16 32" + " " * 200 + "6,120 tokens/s, 12,345,678 tokens/s\n" + "-" * 300, "a page"
    )
    assert [claimed.text for claimed in report.claimed] == ["6,120 tokens/s", "12,345,678 tokens/s"]


def test_a_text_of_hedges_takes_no_square_of_its_length() -> None:
    def taken_s(times: int) -> float:
        began = process_time()
        claimed_in_text("latency dropped by" + " over up to by up to" * times)
        return process_time() - began

    short, long = (min(taken_s(times) for _ in range(2)) for times in (250, 2000))
    assert long < 24 * short, "eight times the text: 8 where each word counts once, 64 where it counts with every other"
