"""What was submitted is recomputed one after the other, in a process that may die of it; the outcome is the server's
own word."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.ledger.location import Location
from lynxbench.server.bounded_process import BoundedProcess
from lynxbench.server.settings import WorkerBounds
from lynxbench.watch.recomputations import FIGURES, WHOLE, DueResult, Recomputations, RecomputationState

AT_ONCE = 16
"""Results whose figures are asked for together: what is written down of them is then one change, not sixteen."""
REST_SHARE = 9.0
"""What was in the ledger before is no hurry: it takes a tenth of one processor at most."""
CALM_S = 1.0
"""The whole of a result takes twenty times as long as its figures: it waits until no figures were due for so long …"""
LONGEST_WAIT_S = 30.0
"""… but not for ever: where results never stop coming, one is taken whole as often as this."""
LOOK_S, RETRY_S = 1.0, 10.0

Outcome = tuple[RecomputationState, list[str]]


class RecomputeProcess(BoundedProcess):
    """One process that recomputes results, started when it is first asked, and again after each that it died of."""

    def __init__(
        self,
        location: Location,
        environment: Mapping[str, str],
        scratch: Path,
        bounds: WorkerBounds | None = None,
    ) -> None:
        module = "lynxbench.server.recompute_worker"
        super().__init__(module, location, environment, scratch, bounds or WorkerBounds())

    def ask(self, result_id: str, *, whole: bool = True) -> Outcome:
        """What comes of one result, or of its figures alone; BadLedger where that is not the result's fault."""
        return next(self.ask_all([result_id], whole=whole))

    def ask_all(self, names: Sequence[str], *, whole: bool) -> Iterator[Outcome]:
        """The same of several, as each is done; where one ends the process, those after it were not asked for.

        Whoever kills a process may mean any other: only what dies of that twice cannot be recomputed.
        """
        questions = [{"result": name, "whole": whole} for name in names]
        with closing(self.answers(questions)) as answers:
            for question, answer in zip(questions, answers, strict=False):
                outcome = _outcome_of(answer)
                if outcome is None:
                    deadly, why = question, self.why_ended()
                    break
                yield outcome
            else:
                return
        again = _outcome_of(next(self.answers([deadly]))) if self.was_killed else None
        if self.was_killed and again is None:
            why = self.why_ended()
        yield again or (RecomputationState.CANNOT, [why])


def _outcome_of(answer: Mapping[str, Any] | None) -> Outcome | None:
    """What a process said of a result; None where it ended without a word."""
    if answer is None or not answer.keys() & {"broken", "state"}:
        return None
    if "broken" in answer:
        raise BadLedger(str(answer["broken"]))
    return RecomputationState(answer["state"]), [str(line) for line in answer["lines"]]


class RecomputeQueue:
    """Takes what is due, one after the other, in a thread that mostly waits; `told` hears of every outcome."""

    def __init__(
        self,
        recomputations: Recomputations,
        process: RecomputeProcess,
        told: Callable[[DueResult, RecomputationState], None],
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recomputations, self._process, self._told, self._log = recomputations, process, told, log
        self._clock, self._figures_at, self._whole_at = clock, -math.inf, clock()
        self._undecided_to, self._whole_to = recomputations.reached(), recomputations.reached(WHOLE)
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._broken = False

    @property
    def working(self) -> bool:
        """Whether what is due will soon be done."""
        return self._thread is not None and not self._broken and not self._stop.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._work, name="lynxbench-recompute", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something came."""
        self._wake.set()

    def stop(self) -> None:
        """End; what was not done is due when it starts again."""
        self._stop.set()
        self._wake.set()
        self._process.interrupt()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self._process.close()

    def take_due(self) -> DueResult | None:
        """The same as `take_next`, of what may be taken now: while results come, their figures go before the rest."""
        now = self._clock()
        calm = now - self._figures_at >= CALM_S or now - self._whole_at >= LONGEST_WAIT_S
        calm = calm or self._whole_to < self._undecided_to  # samples alone did not decide: the whole is no luxury
        due = self.take_next(AT_ONCE, figures_alone=not calm)
        if due is not None and due.whole:
            self._whole_at = self._clock()
        elif due is not None:
            self._figures_at = self._clock()
        return due

    def take_next(self, most: int = 1, *, figures_alone: bool = False) -> DueResult | None:
        """Recompute the next result that is due, or the figures of several that are; None where there is none."""
        due = self._recomputations.due_together(most, figures_alone=figures_alone)
        if not due:
            return None
        outcomes: list[tuple[DueResult, Outcome]] = []
        try:
            asked = self._process.ask_all([result.result_id for result in due], whole=due[0].whole)
            for result, outcome in zip(due, asked, strict=False):  # one that ends the process is the last of them
                if self._stop.is_set():
                    break  # its process was ended because the server ends: that is no outcome
                outcomes.append((result, outcome))
        finally:
            self._keep(outcomes)
        return outcomes[-1][0] if outcomes else None

    def _keep(self, outcomes: Sequence[tuple[DueResult, Outcome]]) -> None:
        self._recomputations.keep_all([(due, *outcome) for due, outcome in outcomes])
        for due, (state, lines) in outcomes:
            if due.mark == WHOLE:
                self._whole_to = due.seq
            elif due.mark == FIGURES and state is RecomputationState.CANNOT:
                self._undecided_to = due.seq
            if state is not RecomputationState.HOLDS:
                fields = {"result": due.result_id, "state": state.value, "why": lines[0] if lines else ""}
                self._log.warning("recomputed", extra=fields)
            self._told(due, state)

    def _work(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                due = self.take_due()
                self._broken = False
            except (LynxbenchError, OSError) as error:
                self._broken = True
                self._log.warning("recomputing waits", extra={"error": str(error)})
                self._stop.wait(RETRY_S)
                continue
            if due is not None and due.urgent:
                continue
            self._wake.wait(LOOK_S if due is None else REST_SHARE * (time.monotonic() - began))
            self._wake.clear()
