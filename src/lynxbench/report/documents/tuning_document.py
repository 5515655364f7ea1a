"""A tuning: the verdict, baseline and tuned side by side, the winner's curse, every trial."""

from functools import partial

from lynxbench.model.plain_numbers import without_exponents
from lynxbench.model.tuning import Trial, TrialStatus, TuningDocument, TuningVerdict
from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Inline, Tone, code, refer, said
from lynxbench.report.experiment_words import gain_words, scalar_words, setting_words
from lynxbench.report.svg.experiment_plots import draw_trials

SHOWN_TRIALS = 12


def compose_tuning(tuning: TuningDocument) -> doc.Report:
    """The whole tuning."""
    tone = Tone.GOOD if tuning.verdict is TuningVerdict.IMPROVED else Tone.WARN
    curse: Fact | None = ("Winner’s curse", f"{_curse_words(tuning)}.") if tuning.tuned is not None else None
    cautions = [said(note) for note in (tuning.accuracy_missing, *tuning.notes) if note]
    return doc.Report(
        f"{words.clean(tuning.contract_name)}: tuning",
        (
            doc.Verdict(said(tuning.sentence), tuning.verdict.value, tone, (curse,), cautions),
            _sides(tuning),
            _search(tuning),
            _trials(tuning),
        ),
        title=said(tuning.question),
        brand="lynxbench tune",
        facts=(
            ("Contract", (said(tuning.contract_name), " ", code(words.abbreviated(tuning.contract_id)))),
            ("Division", tuning.division),
            ("Started", words.moment_text(tuning.started_at)),
        ),
        version=tuning.lynxbench_version,
        motto="A search's best figure is no result.",
    )


def _curse_words(tuning: TuningDocument) -> str:
    """What the selection flattered, in a sentence."""
    curse = tuning.winners_curse
    if curse is None:
        return "the chosen setting has no figure in the search to hold against its confirmation"
    return (
        f"in the search the chosen setting showed {words.digits(curse.in_search, 4)} {words.clean(tuning.unit)} "
        f"over {words.count(curse.trials, 'trial')}; confirmed it is {words.percent_interval(curse.loss)} from that. "
        "The search's figure is no result"
    )


def _sides(tuning: TuningDocument) -> doc.Section:
    rows: list[tuple[Inline, ...]] = []
    for name, side in (("baseline", tuning.baseline), ("tuned", tuning.tuned)):
        if side is None:
            rows.append((name, "not confirmed"))
        else:
            figure = words.interval_text(side.response)
            accuracy = said(without_exponents(side.accuracy))
            rows.append((name, figure, side.division, setting_words(side.setting), accuracy))
    head = ("", f"{tuning.response} ({words.clean(tuning.unit)})", "division", "setting", "accuracy")
    gain = "" if tuning.gain is None else f"Gain by pairs of fresh processes: {gain_words(tuning.gain)}"
    lead = "Fresh processes, in turn, on seeds that no trial ran on."
    table = doc.Table(head, rows, "Confirmed on fresh processes and unseen seeds", (1,), gain)
    return doc.Section("sides", "Baseline and tuned", (table,), lead)


def _search(tuning: TuningDocument) -> doc.Section:
    share = words.percent(len(tuning.trials) / max(tuning.settings, 1))
    spent = words.seconds_text(tuning.measuring_s)
    allowed: list[Fact] = [(name, ", ".join(map(scalar_words, values))) for name, values in tuning.knobs.items()]
    allowed.append(("settings", f"{tuning.settings}; {len(tuning.trials)} trials ({share} of the grid)"))
    allowed.append(("search", f"{tuning.search}, ended by {tuning.ended_by}, {spent} in all"))
    rows = [(trial.number + 1, words.or_nan(trial.response), trial.status.value) for trial in tuning.trials]
    caption = "One fresh process each. Open: refused by the accuracy gate. Dashed: the chosen setting, confirmed."
    head, drawing = ("trial", tuning.response, "status"), partial(draw_trials, tuning)
    plot = doc.Plot("search-plot", "The search, trial by trial", caption, drawing, head, rows)
    return doc.Section("search", "What was tried", (doc.Facts(allowed, "Allowed by the contract"), plot))


def _trials(tuning: TuningDocument) -> doc.Section:
    measured = [trial for trial in tuning.trials if trial.status is TrialStatus.MEASURED]
    best_first = sorted(measured, key=lambda trial: trial.response or 0.0, reverse=tuning.higher_is_better)
    rows = [
        (
            str(trial.number + 1),
            words.digits(trial.response, 4),
            setting_words(trial.setting),
            said(without_exponents(trial.accuracy)),
            _result(trial),
        )
        for trial in best_first
    ]
    others = [
        (
            f"{trial.status.value}: {setting_words(trial.setting)}: ",
            said(trial.reason or without_exponents(trial.accuracy)),
            " ",
            _result(trial),
        )
        for trial in tuning.trials
        if trial.status is not TrialStatus.MEASURED
    ]
    title = "Trials of the search, best first (one fresh process each; not results)"
    head = ("trial", tuning.response, "setting", "accuracy", "result")
    tables = (doc.Table(head, rows, title, (1,), most=SHOWN_TRIALS), doc.Points(others, "Trials that do not count"))
    return doc.Section("evidence", "Evidence", tables, "Every trial left an ordinary result.")


def _result(trial: Trial) -> Inline:
    return refer("results", trial.result_id) if trial.result_id else ""
