"""Where rendered text goes: files beside the result, and the terminal."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lynxbench.cli.showing import terminal_text
from lynxbench.cli.terminal import say, say_json, tell
from lynxbench.model.canonical import short
from lynxbench.model.evidence_gate import Shortfall, carried_attribution
from lynxbench.model.result import Result
from lynxbench.record.recording import LedgerRecorder, recorder_at
from lynxbench.report.doc import Facts
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.json_document import render_json


def recorder_for(ledger: str | None) -> LedgerRecorder | None:
    """Who records a run in the ledger that is meant; None where none is wanted."""
    return recorder_at(ledger, os.environ)


def tell_record(recorder: LedgerRecorder | None, folder: Path) -> None:
    """One line where something is to be known: a key was made, or the ledger could not record the run."""
    if recorder is None:
        return
    if recorder.news is not None:
        tell(f"lynxbench: {recorder.news}")
    if recorder.problem is not None:
        tell(
            f"lynxbench: not recorded: {recorder.problem}; the run is kept. "
            f"Record it later with: lynxbench results import {near(folder)}"
        )


def tell_blame(result: Result, also: Sequence[Shortfall] = ()) -> None:
    """Say beside a sealed document, which cannot, that nobody is blamed by what it attributes, and what is next."""
    carried = carried_attribution(result, also)
    if carried is not None and carried is not result.attribution:
        tell(f"lynxbench: {short(result.result_id)}: {carried.sentence}; next: {carried.next_step}")


def print_result(
    result: Result,
    paths: Mapping[str, str],
    as_json: bool,
    recorded: bool = False,
    standing: Sequence[str] = (),
    also: Sequence[Shortfall] = (),
) -> None:
    """The document for programs, or the summary for people with where everything is."""
    if as_json:
        tell_blame(result, also)
        say_json(render_json(result))
        return
    name, places = short(result.result_id), dict(paths)
    if recorded:
        places |= {"verify": f"lynxbench verify {name}", "contest": f"lynxbench contest {name}"}
    report = compose_result(result, standing=standing, also=also)
    say(terminal_text(replace(report, blocks=(*report.blocks, Facts(list(places.items()))))), end="")


def near(path: Path) -> str:
    """A path as a person here would write it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
