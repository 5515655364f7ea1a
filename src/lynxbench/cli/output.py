"""Where rendered text goes: files beside the result, and the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lynxbench.evidence.documents import RESULT_FILE, check_samples, read_result, write_text
from lynxbench.evidence.samples import read_samples
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.model.canonical import short
from lynxbench.model.result import Result
from lynxbench.report.html import render_html
from lynxbench.report.json_document import render_json
from lynxbench.report.markdown import render_markdown
from lynxbench.report.terminal import render_terminal
from lynxbench.running import TELEMETRY_FILE, Finished

_PLAIN_WIDTH = 120


def write_reports(finished: Finished) -> dict[str, str]:
    """Write the HTML and Markdown reports beside the result; returns what is where, for people."""
    html, markdown = finished.folder / "report.html", finished.folder / "report.md"
    write_text(html, render_html(finished.result, finished.processes, finished.telemetry))
    write_text(markdown, render_markdown(finished.result))
    return {"report": _near(html), "result": _near(finished.folder / RESULT_FILE)}


def print_result(result: Result, paths: Mapping[str, str], as_json: bool) -> None:
    """The document for programs, or the summary for people."""
    if as_json:
        print(render_json(result), end="")
        return
    shown = {**paths, "evidence": f"sha256:{short(result.result_id)}…"}
    print(render_terminal(result, width=_width(), colour=sys.stdout.isatty(), paths=shown), end="")


def render_form(path: Path, form: str) -> str:
    """A stored result as text; plots need its samples, which must be the ones it was made from."""
    result = read_result(path)
    if form == "html":
        folder = path if path.is_dir() else path.parent
        telemetry_file = folder / TELEMETRY_FILE
        telemetry = read_telemetry(telemetry_file) if telemetry_file.exists() else None
        return render_html(result, read_samples(check_samples(result, folder)), telemetry)
    if form == "md":
        return render_markdown(result)
    if form == "json":
        return render_json(result)
    return render_terminal(result, width=_width(), colour=sys.stdout.isatty(), paths={})


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PLAIN_WIDTH


def _near(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
