"""The process that makes pages for a server: `python -m lynxbench.server.page_worker`.

It holds a server of its own over the same tables, which listens to nobody and looks after nothing. It is told on its
standard input which page to make and what changed that the log does not say, and answers each with one line.
"""

import base64
import math
import pickle
import time
from typing import Any

from lynxbench.errors import LynxbenchError
from lynxbench.server.page_process import document_of
from lynxbench.server.server_state import Server
from lynxbench.server.worker_lines import Questions

LOW_PRIORITY = 5
"""After the process that answers, beside the one that takes bundles in, before what is computed again."""
LONG_AGO_S = 1e9


def main() -> None:
    """Make every page that is asked for, until nobody asks any more."""
    with Questions(LOW_PRIORITY) as questions:
        server = Server(*_unpacked(questions.told["serving"]))
        # not stopped at the end: that would take away what processes of the server itself have laid out
        questions.answer(lambda asked: _answer(server, asked))


def _answer(server: Server, asked: dict[str, Any]) -> dict[str, Any]:
    server.pulse.bump(*asked["changed"])
    server.pulse.refresh()
    try:
        make, given, named = _unpacked(asked["call"])
        page, wrong_at = server.cache.made(lambda: make(server, *given, **named))
        wrong_s = None if wrong_at == math.inf else min(time.monotonic() - wrong_at, LONG_AGO_S)
        return {"page": document_of(page), "wrong_s": wrong_s}
    except LynxbenchError as error:
        return {"refused": type(error).__name__, "line": str(error)}
    except Exception as error:  # the server makes it itself, and its log says what is wrong
        return {"broken": f"{type(error).__name__}: {error}"}


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))  # from the server that started this process, and from nobody else


if __name__ == "__main__":
    main()
