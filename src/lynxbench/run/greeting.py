"""The first word to a server, said before anything that only a run needs is loaded.

Whether a server can be asked at all, and how it counts words, takes two short questions. Whoever wrote a wrong name or
key reads so within a second, not after the measuring, recording and reporting code has come in.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Contract
from lynxbench.model.serving import OpenAiEngine, ServedEngine
from lynxbench.model.workload import SERVED_TASKS, ReplayArrival, ServedModel

if TYPE_CHECKING:
    from lynxbench.engines.asking import TokenCalibration

CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Greeting:
    """The server has answered; what it said of how it counts words, where it counts them."""

    calibration: TokenCalibration | None


def greet(contract: Contract, say: Callable[[str], object] | None = None) -> Greeting | None:
    """Ask a contract's server its first questions; None for an engine that is no server, or has to be started first.

    `say` is told where a busy server lets the greeting wait.
    """
    engine = contract.engine
    started = isinstance(engine, ServedEngine) and engine.serve is not None
    return None if started or not isinstance(engine, ServedEngine) else ask_server(contract, say)


def ask_server(contract: Contract, say: Callable[[str], object] | None = None) -> Greeting:
    """Ask a server that listens its first questions."""
    engine, workload = contract.engine, contract.workload
    assert isinstance(engine, ServedEngine)
    if isinstance(workload.arrival, ReplayArrival) or workload.prompts is not None or workload.answers is not None:
        from lynxbench.run.work_files import read_work_files

        read_work_files(contract)  # a file that cannot be read is said before anything is asked or registered
    _refuse_unreachable(engine)
    from lynxbench.engines.asking import silently
    from lynxbench.engines.other_work import ask_other
    from lynxbench.engines.served import ask_first

    model = workload.model
    if workload.task in SERVED_TASKS and isinstance(engine, OpenAiEngine) and isinstance(model, ServedModel):
        return Greeting(ask_other(contract, engine, model, say or silently))
    return Greeting(ask_first(contract, say or silently))


def _refuse_unreachable(engine: ServedEngine) -> None:
    parts = urlsplit(engine.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S).close()
    except OSError as error:
        raise CannotRun(f"{engine.url}: {error.strerror or error}; is the server running?") from None
