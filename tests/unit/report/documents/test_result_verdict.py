"""Doubt is said, and void runs say nothing else."""

from __future__ import annotations

from lynxbench.model.result import Validity, ValidityVerdict
from lynxbench.report import findings
from lynxbench.report.doc import Tone, plain_text
from lynxbench.report.documents.result_document import precisions_table
from lynxbench.report.documents.result_verdict import result_verdict


def test_a_sound_verdict_names_layer_owner_and_next_step(build) -> None:
    result = build.software_bound().result
    head = result_verdict(result)
    assert head.mark == "software-bound"
    facts = {fact[0]: plain_text(fact[1:]) for fact in head.facts if fact}
    assert facts["Cause owned by"] == "runtime → ML platform engineering"
    assert facts["Symptom seen by"] == "system → infrastructure SRE"
    assert "; predicted 1.5–1.9×" in facts["Next step"]


def test_the_sentence_does_not_repeat_the_bound(build) -> None:
    result = build.throttled_gpu().result
    sure = result.attribution.model_copy(update={"weak": False})
    head = result_verdict(result.model_copy(update={"attribution": sure}))
    assert head.mark == "hardware-bound"
    assert head.sentence.startswith("matrix products take 83")
    facts = {fact[0]: plain_text(fact[1:]) for fact in head.facts if fact}
    assert facts["Next step"].endswith("; gain unknown")


def test_a_weak_attribution_blames_nobody_and_names_its_test(build) -> None:
    head = result_verdict(build.throttled_gpu().result)
    assert head.mark == "undetermined"
    assert head.sentence.startswith("nobody is blamed, because the attribution is weak")
    facts = {fact[0]: plain_text(fact[1:]) for fact in head.facts if fact}
    assert "Cause owned by" not in facts
    assert facts["Next step"].startswith("lynxbench run embedding-h200 --intervene")
    assert any("weak" in caution for caution in head.cautions)


def test_an_objective_is_neither_met_nor_missed_by_what_falls_short(build) -> None:
    served = build.served().result
    assert result_verdict(served).mark == "objective met"
    figures = served.per_precision[0]
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("throttling: gpu0 in 40 % of samples",))
    for verdict in ("met", "missed"):
        slo = tuple(outcome.model_copy(update={"verdict": verdict}) for outcome in figures.slo)
        part = figures.model_copy(update={"validity": doubt, "slo": slo})
        head = result_verdict(served.model_copy(update={"per_precision": (part, *served.per_precision[1:])}))
        assert head.mark == "objective unproven"
        assert head.look is Tone.WARN
        assert "next: lynxbench run" in head.sentence


def test_void_comes_before_everything(build) -> None:
    result = build.void().result
    head = result_verdict(result)
    assert (head.mark, head.look) == ("void", Tone.BAD)
    assert head.facts[0] is not None
    assert plain_text(head.facts[0]).startswith("Next step"), "what to do comes first"
    assert "lynxbench run quickstart" in plain_text(head.facts[0])
    assert "foreign load" in head.sentence
    assert findings.shown(result) == ()
    assert all(len(row) == 2 for row in precisions_table(result).rows)


def test_one_void_precision_does_not_hide_the_others(build) -> None:
    base = build.base_result()
    bad = Validity(verdict=ValidityVerdict.VOID, reasons=("memory ran out",))
    first = base.per_precision[0].model_copy(update={"validity": bad})
    result = build.base_result(per_precision=(first, *base.per_precision[1:]))
    rows = precisions_table(result).rows
    assert plain_text(rows[0][1]).startswith("void: memory ran out")
    assert rows[1][1]


def test_without_steady_state_no_rate_is_called_sustained(build) -> None:
    result = build.not_steady().result
    head = result_verdict(result)
    assert sum("no steady state" in caution for caution in head.cautions) == 3
    assert all("mean" in plain_text(row[1]) for row in precisions_table(result).rows if len(row) > 2)


def test_without_attribution_no_layer_is_named(build) -> None:
    head = result_verdict(build.without_attribution().result)
    assert head.mark == "not attributed"
    assert "no layer is named" in head.sentence


def test_a_no_go_is_a_caution(build) -> None:
    assert any("int8" in caution and "no-go" in caution for caution in result_verdict(build.base_result()).cautions)


def test_an_unresolved_tail_stays_beside_the_median(build) -> None:
    row = precisions_table(build.without_attribution().result).rows[0]
    assert plain_text(row[3]).replace("\u00a0", " ") == "412 ms / unresolved"


def test_every_measured_precision_states_counted_and_excluded(build) -> None:
    counted, excluded = findings.counted_line(build.base_result().per_precision[0])
    assert counted.replace("\u00a0", " ") == "61.2 s steady of 94.0 s"
    assert excluded.replace("\u00a0", " ") == "setup 3.1 · compile 0 · warm-up 9.4 · transient 20.3 s"
