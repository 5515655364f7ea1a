"""What a verification comes to: nothing that was not computed again counts as verified, in old entries neither."""

from __future__ import annotations

import pytest

from lynxbench.model.entries import ResultVerified
from lynxbench.model.verification import (
    EvidenceVerdict,
    VerificationReport,
    cannot,
    fails,
    holds,
    were_recomputed,
    worst,
)

OLD = (
    "manifest: holds: 20 files by SHA-256",
    "result id: holds",
    "registration run id: holds",
    "registration contract: holds",
    "attempts: holds: 2 processes registered, 2 attempts kept",
    "attempts counted: holds: 2 processes",
    "samples and phases: holds: as the processes recorded them",
    "fp32 throughput: holds",
    "validity: holds",
)
"""A verification as it was recorded before it had a line on the figures as a whole."""


def _without(name: str, instead: str = "") -> tuple[str, ...]:
    return tuple(line for line in OLD if not line.startswith(f"{name}:")) + ((instead,) if instead else ())


def test_what_was_found_comes_first_then_whether_there_was_anything_to_find() -> None:
    nothing = VerificationReport("ab", (holds("result id"), cannot("manifest", "is not here")))
    assert (nothing.verdict, nothing.holds, nothing.recomputed) == (EvidenceVerdict.CANNOT, False, False)
    computed = nothing.adding((holds("figures", "computed again"),))
    assert (computed.verdict, computed.holds) == (EvidenceVerdict.HOLDS, True)
    wrong = computed.adding((fails("fp32 throughput", "stated 10, recomputed 1"),))
    assert (wrong.verdict, wrong.holds, wrong.recomputed) == (EvidenceVerdict.DOES_NOT_HOLD, False, True)
    assert VerificationReport("ab", ()).verdict is EvidenceVerdict.CANNOT
    document = nothing.document()
    assert (document["verdict"], document["holds"], document["recomputed"]) == ("cannot be verified", False, False)


def test_an_analysis_is_verified_where_every_result_of_it_was() -> None:
    made = VerificationReport("ab", (holds("cells"),), "experiment")
    assert made.verdict is EvidenceVerdict.CANNOT
    assert made.adding((holds("figures", "of 3 results"),)).holds
    assert not made.adding((holds("figures"), fails("cells", "another"))).holds


@pytest.mark.parametrize(
    "lines",
    [
        ("figures: cannot be recomputed: samples.npz is not here",),
        ("figures: does not hold: x",),
        ("figures: holds: computed again", "figures: cannot be recomputed: not all"),
        ("file figures: holds: does not hold: stated x, found y",),
        ("figures: holdsx",),
        ("Figures: holds",),
        (" figures: holds",),
        ("fp32 figures: holds",),
        (*OLD, "figures: cannot be recomputed: telemetry.csv is not here"),
        (),
    ],
)
def test_no_other_line_passes_for_that_on_the_figures(lines: tuple[str, ...]) -> None:
    assert not were_recomputed(lines)


def test_the_line_on_the_figures_is_enough() -> None:
    assert were_recomputed(("figures: holds",))
    assert were_recomputed(("figures: holds: computed again from everything",))


@pytest.mark.parametrize(
    "validity",
    ["validity: holds", "validity: cannot be recomputed: reached by edition 1 of the rules; by edition 4: valid",
     "validity: cannot be recomputed: the verdict holds; the words of a process that died were known to the run"],
)  # fmt: skip
def test_an_old_verification_that_recomputed_everything_still_counts(validity: str) -> None:
    assert were_recomputed(_without("validity", validity))


@pytest.mark.parametrize(
    "lines",
    [
        ("ids: holds",),
        ("manifest: cannot be recomputed: manifest.json is not here", "result id: holds", "contract id: holds"),
        _without("attempts", "attempts: cannot be recomputed: the processes' own files are not here"),
        _without("attempts counted"),
        _without("registration run id", "registration: cannot be recomputed: registration.json is not here"),
        _without("samples and phases", "samples and phases: cannot be recomputed: samples.npz is not here"),
        _without("validity", "validity: cannot be recomputed: telemetry.csv is not here"),
        _without("validity"),
        (*OLD, "attempts: does not hold: one is missing"),
    ],
)
def test_an_old_verification_that_left_something_out_does_not(lines: tuple[str, ...]) -> None:
    assert not were_recomputed(lines)
    assert not ResultVerified(result_id="ab" * 32, holds=True, checks=lines).verifies


def test_what_does_not_hold_verifies_nothing() -> None:
    assert ResultVerified(result_id="ab" * 32, holds=True, checks=OLD).verifies
    assert not ResultVerified(result_id="ab" * 32, holds=False, checks=OLD).verifies


def test_several_come_to_the_worst_and_none_to_nothing() -> None:
    held, wrong, unknown = EvidenceVerdict.HOLDS, EvidenceVerdict.DOES_NOT_HOLD, EvidenceVerdict.CANNOT
    assert worst([held, held]) is held
    assert worst([held, unknown]) is unknown
    assert worst([unknown, wrong, held]) is wrong
    assert worst([]) is unknown
