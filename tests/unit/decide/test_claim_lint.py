from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from lynxbench.decide.claiming import lint_claim, read_claim
from lynxbench.errors import BadInput
from lynxbench.model.claims import Context

DATA = Path(__file__).resolve().parents[2] / "data" / "claims"
LABELLED = YAML(typ="safe").load((DATA / "labelled.yaml").read_text(encoding="utf-8"))


def test_there_are_twenty_labelled_claims() -> None:
    assert len(LABELLED) == 20


@pytest.mark.parametrize("claim", LABELLED, ids=lambda one: one["text"][:40])
def test_missing_contexts_of_a_claim_are_found_exactly(claim: dict[str, object]) -> None:
    report = lint_claim(str(claim["text"]), "test")
    assert [one.value for one in report.missing] == claim["missing"]
    assert report.grade == claim["grade"]
    assert len(report.questions) == len(report.missing)


@pytest.mark.parametrize(
    ("file", "form", "missing"),
    [
        ("vllm.json", "vllm result", ["precision", "stack versions", "warm-up", "accuracy", "power"]),
        ("aiperf.json", "aiperf result", ["precision", "stack versions", "warm-up", "accuracy", "power"]),
        ("guidellm.json", "guidellm result", ["precision", "stack versions", "accuracy", "power"]),
        (
            "mlperf_summary.txt",
            "mlperf result",
            ["model", "precision", "lengths", "stack versions", "warm-up", "accuracy", "power"],
        ),
        (
            "mlperf_row.csv",
            "row of a results table",
            ["batch or concurrency", "lengths", "duration", "warm-up", "percentile", "power"],
        ),
        ("claim.yaml", "YAML", ["stack versions", "regime", "warm-up", "accuracy", "power"]),
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
