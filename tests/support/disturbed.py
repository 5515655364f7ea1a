"""A failure while others took the processor is no finding: what runs real processes by real clocks is run once more.

The hypervisor's share (steal) and what a quota of the control group withheld are read before and after a test. Where a
test of a TIMED room fails while a tenth of the processor time that was wanted was taken, it is run a second time. Where
that fails too, and was disturbed again, the test is skipped with its reason: nothing was shown. A failure that nothing
disturbed is a failure, at the first time or the second. LYNXBENCH_STRICT=1 calls every failure one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

TIMED = (
    "tests/e2e/",
    "tests/server/",
    "tests/unit/engines/",
    "tests/unit/experiment/",
    "tests/unit/fleet/",
    "tests/unit/load/",
    "tests/unit/measure/",
    "tests/unit/run/",
    "tests/unit/server/",
    "tests/unit/test_pytest_plugin.py",
)
"""Rooms whose tests start processes and servers, and wait for them; all others judge values, which nothing disturbs."""
VALUES = ("tests/unit/load/test_saturation",)
"""Of those rooms, what judges values all the same: simulations, whose clocks are numbers."""
LARGEST_SHARE, LEAST_S = 0.1, 0.2
"""Of the processor time that was wanted; what is taken above it may have made the failure, unless it is next to
nothing: the kernel counts by hundredths of a second, and a test of values is over in less than two of them."""
STRICT = "LYNXBENCH_STRICT"
TICKS = os.sysconf("SC_CLK_TCK")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
RAISED = pytest.StashKey[BaseException]()
SHARED = pytest.StashKey[list[tuple[BaseException, bool]]]()
"""Of a session: what was raised, and whether it was disturbed; a shared fixture raises it again for each test."""


@dataclass(frozen=True)
class ProcessorTime:
    """Totals of all processors in seconds since the machine started."""

    used_s: float
    taken_s: float

    def share_taken_until(self, later: ProcessorTime) -> float:
        """Of the time that was wanted between the two; 0 where none was, or what was taken is next to nothing."""
        taken = later.taken_s - self.taken_s
        wanted = later.used_s - self.used_s + taken
        return taken / wanted if taken >= LEAST_S and wanted > 0 else 0.0


def read_processor_time() -> ProcessorTime:
    """Where the kernel does not tell, nothing was taken."""
    try:
        words = Path("/proc/stat").read_text().partition("\n")[0].split()
    except OSError:
        return ProcessorTime(0.0, 0.0)
    user, nice, system, _idle, _waiting, interrupt, soft, stolen = (int(word) for word in words[1:9])
    return ProcessorTime((user + nice + system + interrupt + soft) / TICKS, stolen / TICKS + _withheld_s())


def _withheld_s() -> float:
    """What a quota of this process's control group kept from it, by version 2 (microseconds) or 1 (nanoseconds)."""
    try:
        lines = [line.split(":", 2) for line in OWN_GROUPS.read_text().splitlines()]
    except OSError:
        return 0.0
    for _, controllers, path in lines:
        folder = "" if controllers == "" else "cpu" if "cpu" in controllers.split(",") else None
        if folder is None:
            continue
        try:
            text = (CONTROL_GROUPS / folder / path.lstrip("/") / "cpu.stat").read_text()
        except OSError:
            continue
        figures: Mapping[str, str] = dict(pair for line in text.splitlines() if len(pair := line.split()) == 2)
        if "throttled_usec" in figures:
            return int(figures["throttled_usec"]) / 1e6
        if "throttled_time" in figures:
            return int(figures["throttled_time"]) / 1e9
    return 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """What was raised is kept beside the report, which has its text alone."""
    if call.excinfo is not None:
        item.stash[RAISED] = call.excinfo.value
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Once, and a second time where the first failed while it was disturbed."""
    if not item.nodeid.startswith(TIMED) or item.nodeid.startswith(VALUES) or os.environ.get(STRICT):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports, share = _carried_out(item, nextitem)
    if _failed(reports) and share > LARGEST_SHARE and _known(item) is None:
        _begin_anew(item)
        reports, share = _carried_out(item, nextitem)
    if failed := _failed(reports):
        known = _known(item)
        is_disturbed = share > LARGEST_SHARE if known is None else known
        item.session.stash.setdefault(SHARED, []).append((item.stash[RAISED], is_disturbed))
        for report in failed if is_disturbed else ():
            _skip(item, report, share if known is None else None)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _carried_out(item: pytest.Item, nextitem: pytest.Item | None) -> tuple[list[pytest.TestReport], float]:
    before = read_processor_time()
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    return reports, before.share_taken_until(read_processor_time())


def _failed(reports: list[pytest.TestReport]) -> list[pytest.TestReport]:
    return [report for report in reports if report.failed]


def _known(item: pytest.Item) -> bool | None:
    """Whether what was raised was raised before, by what tests share, and was disturbed then; None where new."""
    raised = item.stash.get(RAISED, None)
    return next((disturbed for one, disturbed in item.session.stash.get(SHARED, []) if one is raised), None)


def _begin_anew(item: Any) -> None:
    """As if the test had not run: its request is new, and fixtures that failed are made again."""
    del item.stash[RAISED]
    item._initrequest()
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        for fixture in fixtures:
            if fixture.cached_result is not None and fixture.cached_result[2] is not None:
                fixture.finish(item._request)


def _skip(item: pytest.Item, report: pytest.TestReport, share: float | None) -> None:
    path, line, _ = report.location
    why = f"{share:.0%} of the processor time was taken by others" if share else "what its tests share was disturbed"
    report.outcome = "skipped"
    report.longrepr = (path, (line or 0) + 1, f"nothing shown, twice: {why}; {item.stash[RAISED]!r:.400}")
