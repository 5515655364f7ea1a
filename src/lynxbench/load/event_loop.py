"""The event loop and the limits that clients and the ground-truth server run under."""

import asyncio
import signal
import threading
from collections.abc import Callable

CLOSING_S = 2.0
"""uvloop waits in native code, without end, until its last handle has closed; a run that is over waits no longer."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed; a run must end, so closing is given up where uvloop would wait on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()

    class EndingLoop(uvloop.Loop):
        """Closes beside the caller, who waits only so long."""

        def close(self) -> None:
            closing = threading.Thread(target=super().close, name="closing", daemon=True)
            closing.start()
            closing.join(CLOSING_S)

    return EndingLoop()


def raise_file_limit() -> None:
    """Allow as many open sockets as the system lets this process have."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def watch_interrupt(loop: asyncio.AbstractEventLoop, stop: Callable[[str], None]) -> Callable[[], None]:
    """Ctrl-C ends the run and keeps the record, where signals can be watched at all; what is returned undoes that."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    previous = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, stop, "interrupted")

    def undo() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, previous)

    return undo
