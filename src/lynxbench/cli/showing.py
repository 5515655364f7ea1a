"""Reports on the terminal: as wide as it is, in colours where it has some."""

from __future__ import annotations

import os
import shutil
import sys

from lynxbench.report.doc import Report
from lynxbench.report.render_terminal import render_terminal

PLAIN_WIDTH = 120


def terminal_text(report: Report) -> str:
    """What is read at a glance."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else PLAIN_WIDTH
    return render_terminal(report, width=width, colour=terminal and not os.environ.get("NO_COLOR"))
