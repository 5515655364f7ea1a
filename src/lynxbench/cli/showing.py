"""Reports on the terminal: as wide as it is, in colours where it has some."""

import os
import shutil
import sys

from lynxbench.cli.terminal import coloured
from lynxbench.report.doc import Report
from lynxbench.report.render_terminal import render_terminal

PLAIN_WIDTH = 120
LIST_WIDTH = 240
"""Lists that another program may read have a line a row."""


def terminal_text(report: Report, plain_width: int = PLAIN_WIDTH) -> str:
    """What is read at a glance; `plain_width` is for output that is no terminal."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else plain_width
    return coloured(render_terminal(report, width=width, colour=terminal and not os.environ.get("NO_COLOR")))
