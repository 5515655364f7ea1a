"""The pytest plug-in: a benchmark is a test that fails only where a regression is proven.

`lynxbench(function)` measures in fresh processes until steady, records the result, and holds it against the level of
its contract on this machine. Nothing but a `regressed` verdict fails a test: a refused, doubtful, unproven or
inconclusive comparison passes and says so. A run that has no steady state, and lacks nothing else, is set aside and
measured again before it is held against anything: by its steadiness alone, whatever its figure is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pytest

from lynxbench.errors import ExitCode, LynxbenchError, OwnCodeFailed, Refused

if TYPE_CHECKING:
    from lynxbench.api import ComparedResults, Measurement, Stopwatch
    from lynxbench.model.contract import Contract

NAME = "lynxbench"
USUAL_TERMS: dict[str, Any] = {
    "restarts": 5,
    "min_duration": "1 s",
    "window": "50 ms",
    "limit": "5 s",
    "drift": "5 %",
    "budget": "5 %",
}
"""The fewest restarts that carry a verdict; drift and budget as the quickstart has them, for a protocol as short cannot
tell less from noise."""

TIMED_HERE = "this:process"
FEWEST_SAMPLES = 12
"""What a verdict of steady takes at least."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where results go, and what they are held against."""
    group = parser.getgroup(NAME, "benchmarks that fail only on a proven regression")
    group.addoption("--lynxbench-ledger", help="Folder or URL of the ledger; none: record and compare nowhere.")
    group.addoption("--lynxbench-out", default="results", help="Folder that receives one folder a run.")
    group.addoption(
        "--lynxbench-accept", action="store_true", help="Hold later runs against the results of this session."
    )
    group.addoption(
        "--lynxbench-again",
        type=int,
        default=1,
        metavar="N",
        help="Times that a run without a steady state is measured again before it is held against anything.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say what the marker means."""
    config.addinivalue_line("markers", f"{NAME}(**terms): how the benchmark of this test is measured, as in a contract")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test that measures has the marker: `-m "not lynxbench"` leaves them out."""
    for item in items:
        if NAME in getattr(item, "fixturenames", ()):
            item.add_marker(NAME)


class BenchmarkFixture:
    """Measures functions in one test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._item: pytest.Item = request.node
        self._config = request.config
        self._where: str | None = self._config.getoption("--lynxbench-ledger")
        self._set_aside = 0

    def __call__(self, function: Callable[[], object]) -> Measurement | Stopwatch:
        """Measure a function without arguments; the test fails here where a regression is proven.

        What no fresh process can import is timed in this one, shown, and held against nothing.
        """
        from lynxbench.run.own_function import TERMS, function_contract, target_of

        terms = {**USUAL_TERMS, **getattr(function, TERMS, {}), **self._marked()}
        try:
            try:
                target = target_of(function)
            except OwnCodeFailed as why:
                function_contract(TIMED_HERE, terms)  # terms that are none are refused all the same
                return self._timed_here(function, terms, str(why))
            measurement = self._measured(function_contract(target, terms))
            self._judge(measurement)
        except LynxbenchError as error:
            pytest.fail(f"{NAME}: {error}", pytrace=False)
        return measurement

    def _measured(self, contract: Contract) -> Measurement:
        from lynxbench.api import run
        from lynxbench.model.evidence_gate import is_disturbed_run

        out = Path(self._config.rootpath) / self._config.getoption("--lynxbench-out")
        measurement, self._set_aside = run(contract, out=out, ledger=self._where), 0
        while self._set_aside < self._config.getoption("--lynxbench-again") and is_disturbed_run(measurement.result):
            self._set_aside += 1
            measurement = run(contract, out=out, ledger=self._where)
        return measurement

    def _marked(self) -> dict[str, Any]:
        """The terms of the markers, the nearest to the test last."""
        markers = list(self._item.iter_markers(NAME))[::-1]
        return {name: value for marker in markers for name, value in marker.kwargs.items()}

    def _judge(self, measurement: Measurement) -> None:
        from lynxbench.api import Ledger, compare

        validity = measurement.result.validity
        doubt = "" if measurement.valid else f"; {validity.verdict}: {'; '.join(validity.reasons)}"
        if measurement.standing is None:
            why = "; ".join(measurement.notes) or "no ledger is wanted"
            return self._say(measurement, f"not recorded, held against nothing ({why}){doubt}")
        ledger = Ledger(self._where)
        if self._config.getoption("--lynxbench-accept"):
            return self._accept(ledger, measurement)
        baseline = ledger.baseline(measurement)
        if baseline is None:
            words = "recorded; no sound result of this contract on this machine before it, so held against nothing"
            return self._say(measurement, f"{words}{doubt}")
        compared = compare(baseline, measurement, ledger=self._where)
        line = line_of(compared)
        self._say(measurement, line)
        if is_proven_regression(compared):
            accept = f"Meant? pytest {self._item.nodeid} --lynxbench-accept holds later runs against it."
            pytest.fail(f"{NAME}: proven regression: {line}\n\n{compared}\n{accept}", pytrace=False)
        return None

    def _accept(self, ledger: Any, measurement: Measurement) -> None:
        try:
            ledger.accept(measurement)
        except Refused as error:
            self._say(measurement, f"not accepted: {error}")
        else:
            self._say(measurement, "later runs are held against it")

    def _timed_here(self, function: Callable[[], object], terms: dict[str, Any], why: str) -> Stopwatch:
        from lynxbench.api import Stopwatch
        from lynxbench.model.quantities import parse_duration
        from lynxbench.report.words import interval_text

        watch, least_s = Stopwatch(self._item.name), parse_duration(terms["min_duration"])
        began, calls = perf_counter(), 0
        while perf_counter() - began < least_s or calls < FEWEST_SAMPLES:
            with watch:
                function()
            calls += 1
        state = watch.steady(drift=terms["drift"])
        figures = f"{interval_text(state.level_ms)} ms a call, steady state: {state.verdict}"
        self._tell(f"{figures}; one process, not recorded, held against nothing ({why})")
        return watch

    def _say(self, measurement: Measurement, words: str) -> None:
        many = f"{self._set_aside} disturbed run{'s' * (self._set_aside > 1)}"
        aside = f"; {many} set aside" if self._set_aside else ""
        self._tell(f"{measurement.result_id[:12]} of contract {measurement.result.contract_id[:12]}: {words}{aside}")

    def _tell(self, line: str) -> None:
        # With the test's report: it reaches the summary from another process too, and a JUnit file.
        self._item.user_properties.append((NAME, line))


def is_proven_regression(compared: ComparedResults) -> bool:
    """Whether a test fails: the whole interval lies beyond the budget, and the evidence of both sides carries it."""
    return compared.exit_code is ExitCode.VERDICT_NO


def line_of(compared: ComparedResults) -> str:
    """What a comparison says, in a line."""
    comparison = compared.comparison
    against = f"against {comparison.a.result_id[:12]}"
    if compared.refused:
        broken = next(rule for rule in comparison.rules if rule.outcome == "breaks")
        return f"incomparable {against} ({broken.rule} {broken.said}): no ratio, and no failure"
    effects = [e for row in comparison.per_precision for e in row.effects if e.figure == comparison.figure]
    if not effects:
        return f"{comparison.verdict} {against}: the figure that decides is not resolved in both"
    effect, ratio = effects[0], effects[0].ratio
    change = f"{ratio.estimate - 1:+.1%} [{ratio.low - 1:+.1%}, {ratio.high - 1:+.1%}]" if ratio.known else "unknown"
    why = f": {effect.why}" if effect.why else ""
    return f"{comparison.verdict} {against}: {effect.figure} {change}, budget {comparison.budget:.1%}{why}"


@pytest.fixture
def lynxbench(request: pytest.FixtureRequest) -> BenchmarkFixture:
    """Measure a function in fresh processes; the test fails only where a regression is proven."""
    return BenchmarkFixture(request)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each benchmark, below pytest-benchmark's table where that is installed."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    said = [
        (report.nodeid, line)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, line in report.user_properties
        if name == NAME
    ]
    if said:
        terminalreporter.section(f"{NAME}: {len(said)} benchmark{'s' * (len(said) > 1)}")
        for test, line in said:
            terminalreporter.line(f"{test}: {line}")
