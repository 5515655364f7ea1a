"""Bundles that came by one request are taken in together, as many as wait: one question to the process, one change of
the ledger, and one of the server's own tables.

Nobody waits for company. Whoever comes while others are being taken in is taken in with all who came meanwhile, so that
what a bundle takes shrinks as they come quicker.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.server.administration import OK, REFUSED, AuditLog, ChangeAuthor
from lynxbench.server.ingest import Outcome
from lynxbench.server.observing import ServerMetrics
from lynxbench.server.rights import Principal
from lynxbench.server.uploads import PushedBundle, Upload, Uploads
from lynxbench.watch.store import Store

MOST_TOGETHER = 8
"""Bundles at a time: whoever came last does not wait for more of them, and they are in memory together."""
STOPPED = "the server ends before the bundle was taken in; send it again"


@dataclass(frozen=True, slots=True)
class WaitingBundle:
    """A bundle that waits for its turn, and whoever waits for what comes of it."""

    pushed: PushedBundle
    who: Principal
    by: ChangeAuthor
    run: str | None
    made: Future[Upload] = field(default_factory=Future)


Take = Callable[[Sequence[WaitingBundle]], list[Outcome]]


class IntakeQueue:
    """A thread that takes in what waits, begun with the first that comes; `arrived` hears that the ledger grew."""

    def __init__(
        self,
        store: Store,
        uploads: Uploads,
        audit: AuditLog,
        metrics: ServerMetrics,
        take: Take,
        arrived: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._store, self._uploads, self._audit, self._metrics = store, uploads, audit, metrics
        self._take, self._arrived, self._log = take, arrived, log
        self._waiting: deque[WaitingBundle] = deque()
        self._changed, self._stop = threading.Condition(), False
        self._thread: threading.Thread | None = None

    def submit(self, pushed: PushedBundle, who: Principal, by: ChangeAuthor, run: str | None) -> Future[Upload]:
        """What comes of a bundle, once that is on the disk; its file is let go of then."""
        waiting = WaitingBundle(pushed, who, by, run)
        with self._changed:
            self._waiting.append(waiting)
            if self._stop:
                self._refuse_rest()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._work, name="lynxbench-intake", daemon=True)
                self._thread.start()
            self._changed.notify()
        return waiting.made

    def stop(self) -> None:
        """End; whoever waits still is told so, and sends the bundle again."""
        with self._changed:
            self._stop = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)
        with self._changed:
            self._refuse_rest()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stop or self._waiting)
                if self._stop:
                    return
                together = [self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))]
            self.take_in(together)

    def take_in(self, together: Sequence[WaitingBundle]) -> None:
        """Take bundles in, write down what came of each, and tell whoever waits."""
        made: Sequence[Upload | Exception]
        try:
            made = self._written(together, self._outcomes(together))
        except Exception as error:  # whoever waits would wait for ever; the thread goes on with the next
            if not isinstance(error, LynxbenchError):
                self._log.error("broken", extra={"error": f"{type(error).__name__}: {error}"})
            made = [error] * len(together)
        for waiting, each in zip(together, made, strict=True):
            self._tell(waiting, each)

    def _outcomes(self, together: Sequence[WaitingBundle]) -> list[Outcome]:
        try:
            return self._take(together)
        except LynxbenchError as error:
            return [error] * len(together)

    def _written(self, together: Sequence[WaitingBundle], outcomes: Sequence[Outcome]) -> list[Upload | Exception]:
        taken = [outcome for outcome in outcomes if not isinstance(outcome, LynxbenchError)]
        if taken:
            self._arrived()
            self._metrics.submissions.inc(len(taken))
            self._metrics.entries_added.inc(sum(one.new for one in taken))
        made: list[Upload | Exception] = []
        with self._store.writing() as connection:
            for waiting, outcome in zip(together, outcomes, strict=True):
                refused = isinstance(outcome, LynxbenchError)
                said = (REFUSED, str(outcome)) if refused else (OK, "")
                self._audit.add(connection, waiting.by, "submit", waiting.pushed.manifest[:12], *said)
                if isinstance(outcome, LynxbenchError):
                    made.append(outcome)
                else:
                    made.append(self._uploads.finish_pushed(connection, waiting.pushed, outcome))
        return made

    def _tell(self, waiting: WaitingBundle, made: Upload | Exception) -> None:
        self._uploads.let_go(waiting.pushed)
        with suppress(InvalidStateError):  # nobody waits any more
            if isinstance(made, Exception):
                waiting.made.set_exception(made)
            else:
                waiting.made.set_result(made)

    def _refuse_rest(self) -> None:
        while self._waiting:
            self._tell(self._waiting.popleft(), BadLedger(STOPPED))
