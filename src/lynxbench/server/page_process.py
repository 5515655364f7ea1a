"""Pages that nobody waits for are made by a process of their own: the interpreter that answers has no time for them."""

import base64
import logging
import pickle
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from lynxbench.errors import BadLedger
from lynxbench.ledger.location import Location
from lynxbench.report.markup import Safe
from lynxbench.server.bounded_process import BoundedProcess, refusal_of
from lynxbench.server.page_cache import ChangeCounter, PageCache
from lynxbench.server.pages.page_shell import Page
from lynxbench.server.settings import ServerSettings, WorkerBounds

REST_S = 60.0
"""Where the process ended, pages are made by the server itself for so long."""
MOST_PAGE_BYTES = 32 << 20


class PageProcess(BoundedProcess):
    """One process with a server of its own over the same tables, which makes pages and answers nobody else."""

    most_answer_bytes = MOST_PAGE_BYTES

    def __init__(
        self,
        settings: ServerSettings,
        location: Location,
        store_at: str,
        pulse: ChangeCounter,
        cache: PageCache,
        log: logging.Logger,
    ) -> None:
        module, scratch = "lynxbench.server.page_worker", settings.upload_folder / "pages"
        super().__init__(module, location, settings.environment, scratch, WorkerBounds())
        self._serving = settings, location, store_at
        self._pulse, self._cache, self._log = pulse, cache, log
        self._one_at_a_time = threading.Lock()
        self._rests_until = 0.0

    def more_told(self) -> dict[str, Any]:
        """How the server was told to run."""
        return {"serving": packed(self._serving)}

    def make(
        self, make: Callable[..., Page], given: tuple[Hashable, ...], named: Mapping[str, Hashable]
    ) -> Page | None:
        """What a function makes of the server and what is given; None where it is to be made here."""
        with self._one_at_a_time:
            if time.monotonic() < self._rests_until:
                return None
            question = {"call": packed((make, given, dict(named))), "changed": self._pulse.take_bumped()}
            try:
                answer = next(self.answers([question]))
                why = None if answer is not None else self.why_ended()
            except BadLedger as error:
                answer, why = None, str(error)
            if answer is None or "broken" in answer:
                self._rests_until = time.monotonic() + REST_S
                self._log.warning("pages are made here", extra={"why": why or answer})
                return None
        if "refused" in answer:
            raise refusal_of(answer)
        if answer["wrong_s"] is not None:
            self._cache.note(time.monotonic() - answer["wrong_s"])
        return page_of(answer["page"])


def packed(value: object) -> str:
    """A value for the process, which believes the server; nothing comes back this way."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def document_of(page: Page) -> dict[str, Any]:
    """A page as the process answers it."""
    plots = {name: str(plot) for name, plot in page.plots.items()}
    return {
        "title": page.title,
        "header": str(page.header),
        "main": str(page.main),
        "status": page.status,
        "plots": plots,
    }


def page_of(document: Mapping[str, Any]) -> Page:
    """The page again: its markup was made by the same functions as here."""
    plots = {name: Safe(plot) for name, plot in document["plots"].items()}
    return Page(document["title"], Safe(document["header"]), Safe(document["main"]), document["status"], plots)
