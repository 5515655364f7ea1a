from __future__ import annotations

from lynxbench.model.interval import Interval
from lynxbench.model.tuning import Confirmed, Trial, TrialStatus, TuningDocument, TuningVerdict, WinnersCurse
from lynxbench.report.documents.tuning_document import compose_tuning
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal

ID = "ab" * 32


def confirmed(setting: dict[str, int | str | bool | float], division: str, level: float) -> Confirmed:
    return Confirmed(
        setting=setting,
        contract_id=ID,
        division=division,
        response=Interval(level - 2, level, level + 2),
        values=(level - 1, level + 1),
        seeds=(11, 12),
        result_ids=(ID, ID),
        accuracy="go, largest loss 0.10% over 2 unseen seeds",
    )


def document() -> TuningDocument:
    setting: dict[str, int | str | bool | float] = {"engine.threads": 4, "engine.graph": "compile"}
    trials = (
        Trial(number=0, setting=setting, status=TrialStatus.MEASURED, response=170.0, accuracy="go", result_id=ID),
        Trial(number=1, setting={**setting, "engine.threads": 8}, status=TrialStatus.FAILED, reason="out of <memory>"),
        Trial(number=2, setting={"engine.threads": 2}, status=TrialStatus.REFUSED, response=190.0, accuracy="no-go"),
    )
    return TuningDocument(
        lynxbench_version="0",
        tuning_id="t",
        contract_name="embedding",
        contract_id=ID,
        question="How fast?",
        division="bounded",
        knobs={"engine.threads": (1, 2, 4, 8), "engine.graph": ("eager", "compile")},
        settings=8,
        search="model",
        seed=1,
        trials_allowed=3,
        time_allowed_s=None,
        ended_by="3 trials",
        response="throughput",
        unit="sentences/s",
        higher_is_better=True,
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:10:00+00:00",
        measuring_s=600.0,
        trials=trials,
        baseline=confirmed({}, "none", 100.0),
        tuned=confirmed(setting, "bounded", 160.0),
        gain=Interval(1.55, 1.6, 1.65),
        winners_curse=WinnersCurse(
            in_search=170.0, trials=1, confirmed=Interval(158, 160, 162), loss=Interval(-0.07, -0.059, -0.047)
        ),
        verdict=TuningVerdict.IMPROVED,
        sentence="engine.threads 4 beats the baseline",
    )


def test_baseline_and_tuned_stand_side_by_side_and_the_search_s_figure_is_no_result() -> None:
    text = render_terminal(compose_tuning(document()), width=110)
    lines = text.splitlines()
    assert lines[lines.index("") + 1].startswith("IMPROVED: ")
    (baseline,) = [line.split() for line in lines if line.strip().startswith("baseline ")]
    (tuned,) = [line.split() for line in lines if line.strip().startswith("tuned ")]
    assert baseline[1:5] == ["100", "[98,", "102]", "none"]
    assert tuned[1:5] == ["160", "[158,", "162]", "bounded"]
    assert "1.600× [1.550, 1.650]" in text
    assert "confirmed it is −5.9 %" in " ".join(text.split())
    assert "The search's figure is no result" in " ".join(text.split())
    before_trials = text[: text.index("Trials of the search")]
    assert before_trials.count("170") == 1  # once, inside the sentence on the winner's curse
    assert "failed: engine.threads 8, engine.graph compile: out of <memory>" in text
    assert "refused by the accuracy gate: engine.threads 2: no-go" in text
    assert "38 % of the grid" in text


def test_the_page_carries_the_same_and_escapes() -> None:
    page = render_html(compose_tuning(document()))
    assert "out of &lt;memory&gt;" in page
    assert "1.600×" in page
    assert page.count("<svg ") == 2
    assert "<script" not in page


def test_nothing_confirmed_is_said() -> None:
    empty = document().model_copy(
        update={"baseline": None, "tuned": None, "gain": None, "winners_curse": None, "trials": ()}
    )
    text = render_terminal(
        compose_tuning(empty.model_copy(update={"verdict": TuningVerdict.NOTHING_PASSED})), width=100
    )
    assert "\n\nNO SETTING PASSED" in text
    assert text.count("not confirmed") == 2
    assert "no trial was measured" in render_html(compose_tuning(empty))
