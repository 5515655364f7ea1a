"""Log lines of servers and agents: Python's own logging, one JSON document a line."""

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from lynxbench.visible import visible_json

_USUAL = frozenset(vars(logging.makeLogRecord({})))
"""What every record has; everything else was given with it, or is a library's own note, which begins with `_`."""


class JsonFormatter(logging.Formatter):
    """Time, level, event, and the fields that came with it. Nothing that is secret is ever among them."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever the fields hold."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {name: value for name, value in vars(record).items() if name not in _USUAL and name[0] != "_"}
        line = {"at": at, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
        return visible_json(json.dumps(line, ensure_ascii=False, default=str))


def make_log(name: str, stream: TextIO | None = None, *, quiet: bool = False) -> logging.Logger:
    """A log of its own on standard error, or another stream; `quiet` keeps all but warnings to itself."""
    log = logging.Logger(name, logging.WARNING if quiet else logging.INFO)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    return log
