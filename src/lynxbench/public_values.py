"""What the public surface hands out: frozen values that print as text and show as a page in a notebook."""

import html
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Self

import numpy as np

from lynxbench.attribute.rank_traces import RankReport
from lynxbench.errors import BadInput, BadSeries, ExitCode
from lynxbench.measure.foreign_series import MIN_VALUES, SeriesGroup, judge_group
from lynxbench.model.attribution import Attribution
from lynxbench.model.canonical import plain_json, short
from lynxbench.model.comparison import Comparison, EffectVerdict
from lynxbench.model.interval import Interval
from lynxbench.model.quantities import parse_duration, parse_ratio
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.standing import Standing
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.record.exporting import Standings, arrow_table, data_frame
from lynxbench.record.recalling import recalled
from lynxbench.record.run_reports import compose_recalled
from lynxbench.report.doc import Fact, Report, Tone, Verdict, said
from lynxbench.report.documents.comparison_document import compose_comparison
from lynxbench.report.documents.trace_document import TraceView, compose_trace
from lynxbench.report.documents.trace_view import document_of
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal
from lynxbench.report.words import interval_text

PLAIN_WIDTH = 120
FRAME_HEIGHT_PX = 640


class Shown(ABC):
    """What a person reads of it: text where it is printed, the report's own page in a notebook."""

    @abstractmethod
    def _report(self, *, plots: bool) -> Report: ...

    def __str__(self) -> str:
        return render_terminal(self._report(plots=False), width=PLAIN_WIDTH)

    def html(self) -> str:
        """A whole page that opens without a network."""
        return render_html(self._report(plots=True))

    def _repr_html_(self) -> str:
        # A frame of its own: the page's style stays inside, and its script cannot reach the notebook.
        page = html.escape(self.html(), quote=True)
        style = f"width:100%;height:{FRAME_HEIGHT_PX}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Whether a series is steady, and the level of what is counted."""

    verdict: SteadyVerdict
    reason: str
    level_ms: Interval
    counted: int
    samples: int


@dataclass(frozen=True, repr=False)
class Measurement(Shown):
    """One run of one contract on one executor: the sealed result, where it lies, and how it stands in a ledger."""

    result: Result
    folder: Path | None
    """Where its samples lie; None for one that was loaded from a ledger, which keeps them."""
    standing: Standing | None
    ledger: str | None = None
    notes: tuple[str, ...] = ()
    """What the command line would have told beside it: guesses, a key that was made, why it was not recorded."""

    @property
    def result_id(self) -> str:
        """The SHA-256 of the result document."""
        return self.result.result_id

    @property
    def valid(self) -> bool:
        """Whether its validity is `valid`; `result.validity.reasons` say why not."""
        return self.result.validity.verdict is ValidityVerdict.VALID

    def document(self) -> dict[str, object]:
        """The result document, as `result.json` has it."""
        return self.result.document()

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each measured precision, each with its whole context."""
        return arrow_table([self.result], self._standings)

    def to_pandas(self) -> Any:
        """The same rows as a `pandas.DataFrame`."""
        return data_frame([self.result], self._standings)

    @property
    def _standings(self) -> Standings:
        return {} if self.standing is None else {self.result_id: self.standing.short}

    @property
    def name(self) -> str:
        """As other calls and commands take it: the folder, or the id where a ledger keeps it."""
        return self.result_id if self.folder is None else str(self.folder)

    def _report(self, *, plots: bool) -> Report:
        with recalled(self.name, self.ledger, os.environ) as recall:
            return compose_recalled(recall, plots=plots)

    def __repr__(self) -> str:
        return f"<Measurement {short(self.result_id)} of {self.result.contract.name}: {self.result.validity.verdict}>"


@dataclass(frozen=True, repr=False)
class ComparedResults(Shown):
    """B held against A: comparability first, then the effect with its interval, then whose layers differ."""

    comparison: Comparison

    @property
    def refused(self) -> bool:
        """Whether the two are incomparable: then there is no ratio anywhere."""
        return self.comparison.refused

    @property
    def verdict(self) -> EffectVerdict | None:
        """`regressed`, `improved`, `within budget`, `inconclusive` or `unproven`; None where refused."""
        return self.comparison.verdict

    @property
    def exit_code(self) -> ExitCode:
        """What `lynxbench compare` would end with."""
        return self.comparison.exit_code

    def document(self) -> dict[str, Any]:
        """The document of `lynxbench compare --json`."""
        return self.comparison.model_dump(mode="json")

    def _report(self, *, plots: bool) -> Report:
        return compose_comparison(self.comparison)

    def __repr__(self) -> str:
        word = "incomparable" if self.refused else str(self.verdict)
        return f"<ComparedResults {self.comparison.b.name} over {self.comparison.a.name}: {word}>"


@dataclass(frozen=True, repr=False)
class AttributedTrace(Shown):
    """Where the time of a step went, by exclusive category, and whose it is."""

    _view: TraceView
    _ranks: RankReport

    @property
    def attribution(self) -> Attribution:
        """The verdict with its shares; nobody is blamed where it is weak."""
        return self._view.attribution

    def document(self) -> dict[str, Any]:
        """The document of `lynxbench trace --json`."""
        document = plain_json(document_of(self._ranks, self._view))
        assert isinstance(document, dict)
        return document

    def _report(self, *, plots: bool) -> Report:
        return compose_trace(self._view)

    def __repr__(self) -> str:
        return f"<AttributedTrace {self._view.source}: {self.attribution.sentence}>"


class Stopwatch(Shown):
    """Times a block of one's own code each time it is entered, and says whether the series is steady.

    It is one process: how far processes differ is not in its interval, so nothing is compared by it and no ledger takes
    it. `run` measures in fresh ones.
    """

    name: str
    failed: int
    """Times that the block raised; what it took then is no sample."""

    def __init__(self, name: str = "block", *, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.name, self.failed = name, 0
        self._clock_ns = clock_ns
        self._spans: list[tuple[int, int]] = []
        self._began: int | None = None

    def __enter__(self) -> Self:
        if self._began is not None:
            raise BadInput(f"stopwatch {self.name!r} runs already; a block inside of another needs its own")
        self._began = self._clock_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end, began, self._began = self._clock_ns(), self._began, None
        assert began is not None
        if kind is None:
            self._spans.append((began, end))
        else:
            self.failed += 1

    @property
    def samples_ms(self) -> tuple[float, ...]:
        """What each entry took, in the order of time."""
        return tuple((end - began) / 1e6 for began, end in self._spans)

    def steady(self, *, drift: str = "1 %", window: str | None = None) -> SteadyState:
        """The verdict of `lynxbench steady` on the samples, with the level of what is counted."""
        if len(self._spans) < MIN_VALUES:
            raise BadSeries(f"stopwatch {self.name!r} has {len(self._spans)} samples; a series needs {MIN_VALUES}")
        began_s = np.array([began for began, _ in self._spans]) / 1e9
        series = SeriesGroup("", np.array(self.samples_ms), began_s)
        width = None if window is None else parse_duration(window)
        judged = judge_group(series, drift_bound=parse_ratio(drift), window_s=width, higher_is_better=False)
        level, judgement = judged.judgement.level, judged.judgement
        return SteadyState(judgement.verdict, str(judgement.reason), level, judged.rows - judged.truncate, judged.rows)

    def _report(self, *, plots: bool) -> Report:
        state = self.steady()
        tone = Tone.GOOD if state.verdict is SteadyVerdict.STEADY else Tone.WARN
        caution = "one process: the spread between processes is not in the interval, and nothing is compared by it"
        facts: list[Fact] = [
            ("Block", said(self.name)),
            ("A call", f"{interval_text(state.level_ms)} ms"),
            ("Counted", f"{state.counted} of {state.samples} samples, {self.failed} failed"),
        ]
        sentence = state.reason or "the series is level"
        return Report("Stopwatch", (Verdict(sentence, state.verdict.value, tone, facts, (caution,)),))

    def __repr__(self) -> str:
        return f"<Stopwatch {self.name}: {len(self._spans)} samples>"
