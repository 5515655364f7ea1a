"""Everything a running server holds, and the one thread that looks after what nobody asked for just now."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from anyio import CapacityLimiter

from lynxbench import __version__
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import NEWEST, logged_trust
from lynxbench.ledger.location import Location, OpenLedger, open_ledger
from lynxbench.ledger.result_standings import owner_of_result
from lynxbench.report.documents.comparison_document import compose_comparison
from lynxbench.report.render_terminal import render_terminal
from lynxbench.server.administration import Administration
from lynxbench.server.ingest import OfferedBundle, Outcome, take_in_all
from lynxbench.server.intake import IntakeProcess, intake_bounds
from lynxbench.server.intake_queue import IntakeQueue, WaitingBundle
from lynxbench.server.limits import SIGN_INS_PER_MIN, SUBMISSIONS_PER_MIN, WRONG_TOKENS_PER_MIN, Limiter, SignInLimits
from lynxbench.server.live import LiveBoard
from lynxbench.server.observing import ServerMetrics
from lynxbench.server.page_cache import EVERYTHING, OWN, TRUST, WORK, ChangeCounter, PageCache, PageMaker
from lynxbench.server.page_process import PageProcess
from lynxbench.server.provider import Provider
from lynxbench.server.provider_accounts import ProviderAccounts
from lynxbench.server.provider_settings import SECRET_VARIABLE
from lynxbench.server.read_pages import ReadPages
from lynxbench.server.recompute_queue import RecomputeProcess, RecomputeQueue
from lynxbench.server.rights import Principal
from lynxbench.server.saved_views import SavedViews
from lynxbench.server.settings import ServerSettings, refuse_open
from lynxbench.server.uploads import Taken, Uploads
from lynxbench.watch.json_log import make_log
from lynxbench.watch.judging_round import JudgingRound
from lynxbench.watch.notifying import Courier
from lynxbench.watch.recomputations import DueResult, Recomputations, RecomputationState
from lynxbench.watch.regressions import Watch
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.store import Store

LOOK_S = 0.25
FLOOD_LOOK_S = 1.0
"""Between two rounds that found results: those of a second are judged together, which takes less than one by one."""
SWEEP_S = 2.0
TRUST_FRESH_S = 1.0
"""A key that was registered or revoked by another process counts after at most so long."""
LETTER_WIDTH = 100
SCRATCH, INTAKE = "recompute", "intake"
RETURN_PATH = "/signin/oidc/callback"
TAKING = 2
"""Bundles at a time: one is taken in, the next is made ready, and further ones wait without a thread."""
SIGNING_IN = 2
"""Threads that wait for the company's provider: one that is slow never holds up whoever reads pages."""
ACCESS = "access"
"""Changes with every user, token and session: who was let in a moment ago is asked again."""


class Server:
    """The parts, wired together; Refused where they would be open to a network without a name."""

    def __init__(
        self, settings: ServerSettings, location: Location, store_at: str, log: logging.Logger | None = None
    ) -> None:
        self.settings = settings
        self.log = log or make_log("lynxbench.server", quiet=True)
        self.provider = _provider(settings)
        self.keyring = Keyring(environment=settings.environment)
        self.store = Store(store_at)
        try:
            sealer = SecretSealer(self.keyring.where)
            self.administration = Administration(self.store, self.keyring.trust, sealer, self.changed)
            self.administration.contacts.seal_clear()
            refuse_open(settings, has_administrator=self.administration.access.has_administrator())
            self.ledger: OpenLedger = open_ledger(location, settings.environment, create=True)
        except BaseException:
            self.store.close()
            raise
        self.access, self.audit = self.administration.access, self.administration.audit
        self.keys, self.contacts = self.administration.keys, self.administration.contacts
        self.scheduler = self.administration.scheduler
        self.views = SavedViews(self.store)
        self.provider_accounts = ProviderAccounts(self.store)
        self.uploads = Uploads(self.store, settings.upload_folder, settings.largest_bundle_bytes)
        self.recomputations = Recomputations(self.store, self.ledger.log)
        self.watch = Watch(self.store, self.ledger, self.recomputations, self.scheduler.ask_again)
        self.courier = Courier(self.store, self.contacts, settings.base_url, settings.smtp_url, settings.mail_from)
        self.board = LiveBoard()
        self.pulse = ChangeCounter(self.ledger.log)
        self.cache = PageCache(self.pulse)
        self.pages = PageMaker(self.cache)
        self.page_process = PageProcess(settings, location, store_at, self.pulse, self.cache, self.log)
        self.read_pages = ReadPages(self.store)
        self.metrics = ServerMetrics()
        self.reads = Limiter(settings.reads_per_s)
        self.sign_ins = SignInLimits()
        self.password_changes = Limiter(SIGN_INS_PER_MIN / 60, SIGN_INS_PER_MIN)
        self.failed_returns = Limiter(WRONG_TOKENS_PER_MIN / 60, WRONG_TOKENS_PER_MIN)
        self.wrong_tokens = Limiter(WRONG_TOKENS_PER_MIN / 60, WRONG_TOKENS_PER_MIN)
        self.submissions = Limiter(SUBMISSIONS_PER_MIN / 60, SUBMISSIONS_PER_MIN / 2)
        bounds = intake_bounds(settings.largest_bundle_bytes)
        self.taking, self.signing_in = CapacityLimiter(TAKING), CapacityLimiter(SIGNING_IN)
        self._intake = IntakeProcess(location, settings.environment, settings.upload_folder / INTAKE, bounds)
        given = (self.store, self.uploads, self.audit, self.metrics)
        self.intake = IntakeQueue(*given, self.take_waiting, self.arrived, self.log)
        process = RecomputeProcess(location, settings.environment, settings.upload_folder / SCRATCH)
        self.recomputing = RecomputeQueue(self.recomputations, process, self._recomputed, self.log)
        self.judging = threading.Lock()
        self.started_at = datetime.now(UTC)
        self._trust: tuple[float, TrustList] | None = None
        self._trusted: TrustList | None = None
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._describe()

    @property
    def looks_after(self) -> bool:
        """Whether it looks after things at all, with processes of its own: not where it only makes pages."""
        return self._thread is not None

    @property
    def trust(self) -> TrustList:
        """Whose signatures count, as of a moment ago."""
        held = self._trust
        if held is None or time.monotonic() - held[0] > TRUST_FRESH_S:
            held = (time.monotonic(), logged_trust(self.ledger.log, self.keys.trust()).at(NEWEST))
            if self._trusted is not None and self._trusted != held[1]:
                self.pulse.bump(OWN, TRUST)
            self._trust, self._trusted = held, held[1]
        return held[1]

    def changed(self) -> None:
        """The server's own tables changed: pages that show them are made again, and whoever waits looks at once."""
        self._trust = None
        self.pulse.bump(OWN, ACCESS)
        self._wake.set()

    def arrived(self) -> None:
        """The ledger has new entries."""
        self.pulse.refresh()
        self.recomputing.wake()
        self._wake.set()

    def signing_key(self) -> SigningKey:
        """The server's own key: signs the state of the ledger in bundles that are pulled."""
        return self.keyring.signing_key(datetime.now(UTC)).key

    def take_in(self, path: Path, who: Principal) -> Taken:
        """A submission into the ledger: by a process of its own, where the server looks after things at all."""
        (outcome,) = self.take_in_all([OfferedBundle(path, who)])
        if isinstance(outcome, LynxbenchError):
            raise outcome
        return outcome

    def take_waiting(self, together: Sequence[WaitingBundle]) -> list[Outcome]:
        """Submissions that wait, into the ledger together, each with the run that it came from."""
        outcomes: dict[int, Outcome] = {}
        for number, waiting in enumerate(together):
            if waiting.run is not None:
                try:
                    self.scheduler.own(waiting.run, waiting.who.team)  # says so before anything is taken in
                except LynxbenchError as error:
                    outcomes[number] = error
        left = [number for number in range(len(together)) if number not in outcomes]
        with ExitStack() as held:
            if any(together[number].run is not None for number in left):
                held.enter_context(self.judging)  # a result is judged once it is known where it ran
            taken = self.take_in_all(
                [OfferedBundle(together[number].pushed.path, together[number].who) for number in left]
            )
            for number, outcome in zip(left, taken, strict=True):
                outcomes[number] = self._attached(together[number], outcome)
        return [outcomes[number] for number in range(len(together))]

    def _attached(self, waiting: WaitingBundle, outcome: Outcome) -> Outcome:
        if waiting.run is None or isinstance(outcome, LynxbenchError):
            return outcome
        try:
            for result_id in outcome.results:
                # others' may come along, and did not run here
                if waiting.who.team in owner_of_result(self.ledger.log, result_id, self.trust).teams:
                    self.scheduler.attach(waiting.run, waiting.who.team, result_id)
        except LynxbenchError as error:
            return error
        return outcome

    def take_in_all(self, offers: Sequence[OfferedBundle]) -> list[Outcome]:
        """The same of several, of which each is refused for itself."""
        trust, now_s = self.keys.trust(), time.time()
        if not offers:
            return []
        if not self.looks_after:
            return take_in_all(self.ledger, offers, trust, now_s)
        return self._intake.take_in_all(offers, trust, now_s)

    # --- what nobody asked for just now -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look after schedules, new results and messages."""
        self.uploads.discard_abandoned()
        self._thread = threading.Thread(target=self._look, name="lynxbench-look", daemon=True)
        self._thread.start()
        self.recomputing.start()

    def stop(self) -> None:
        """End it, and let go of the databases."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.recomputing.stop()
        for process in (self._intake, self.page_process):
            process.interrupt()
        self.intake.stop()
        for process in (self._intake, self.page_process):
            process.close()
        self.store.close()
        self.ledger.log.close()

    def look(self, *, sweep: bool = True) -> bool:
        """One round, also what tests call; whether there were results to judge."""
        self.pulse.refresh()
        if sweep:
            self.read_pages.keep()
            if self.scheduler.sweep():
                self.pulse.bump(WORK)
        found = self._judge()
        self._send()
        return found

    def _look(self) -> None:
        swept, looked, rest_s = 0.0, -LOOK_S, LOOK_S
        while not self._stop.is_set():
            self._wake.wait(LOOK_S)
            # A rest, then one round for all that came meanwhile: each result of a flood wakes this thread twice.
            self._stop.wait(looked + rest_s - time.monotonic())
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                due = time.monotonic() - swept > SWEEP_S
                rest_s = FLOOD_LOOK_S if self.look(sweep=due) else LOOK_S
                swept = time.monotonic() if due else swept
            except Exception as error:  # the thread lives on: one odd result must not stop every notification
                level = logging.WARNING if isinstance(error, LynxbenchError) else logging.ERROR
                self.log.log(level, "looking after things failed", extra={"error": f"{type(error).__name__}: {error}"})
                self._stop.wait(1.0)
            looked = time.monotonic()

    def _judge(self) -> bool:
        with self.judging:
            seqs = self.watch.pending()
            if self.recomputing.working and seqs:
                reached = self.recomputations.reached()
                seqs = [seq for seq in seqs if seq <= reached]
            found = bool(seqs)
            for among in self._rounds(seqs):
                if not self._judge_round(among):
                    break
        moved = self.watch.moved()
        if moved:
            self.pulse.bump(WORK, *moved)
        return found

    def _rounds(self, seqs: Sequence[int]) -> Iterator[JudgingRound]:
        """All of them at once; one after the other where one of them cannot be read."""
        alone = [[seq] for seq in seqs]
        for some in [seqs, *alone] if len(seqs) > 1 else alone:
            try:
                among = self.watch.round_of(some, self.trust)
            except LynxbenchError as error:
                if len(some) == 1:
                    self._not_judged(some[0], error)
                continue
            yield among
            if len(some) == len(seqs):
                return

    def _judge_round(self, among: JudgingRound) -> bool:
        """Judge what was recomputed; whether none of them is still to be."""
        # What its own samples refute is held against nothing: that is known first.
        awaited = self.recomputations.awaited_among(among.names) if self.recomputing.working else set()
        places = self.scheduler.places_of(list(among.names.values()))
        for logged in among.entries:
            if self._stop.is_set() or logged.seq in awaited:
                return False
            try:
                notice = self.watch.judge_among(among, logged, places.get(among.names[logged.seq]))
            except LynxbenchError as error:
                self._not_judged(logged.seq, error)
                continue
            if notice is not None:
                fields = {"notice": notice.notice, "contract": notice.contract_id, "owner": notice.owner}
                self.log.info("regression", extra=fields)
                self.metrics.regressions.inc()
        return True

    def _not_judged(self, seq: int, error: LynxbenchError) -> None:
        self.log.warning("a result could not be judged", extra={"seq": seq, "error": str(error)})

    def _recomputed(self, due: DueResult, state: RecomputationState) -> None:
        if due.whole or state is RecomputationState.REFUTED:
            self.metrics.recomputed.labels(state.value).inc()
        self.pulse.bump(due.result_id, due.contract_id, EVERYTHING)
        self._wake.set()

    def _send(self) -> None:
        for number, name in self.courier.waiting():
            notice = self.watch.notice(name)
            comparison = self.watch.compare(notice.baseline_id, notice.result_id, self.trust)
            letter = render_terminal(compose_comparison(comparison), width=LETTER_WIDTH)
            state = self.courier.send(number, notice, letter)
            self.metrics.messages.labels(state).inc()
            level = logging.INFO if state == "sent" else logging.WARNING
            self.log.log(level, "message", extra={"notice": name, "state": state})
            self.pulse.bump(WORK, notice.contract_id)

    def _describe(self) -> None:
        began, gauge = self.started_at.timestamp(), self.metrics.gauge
        gauge("start_time_seconds", "When the server started.", lambda: began)
        gauge("build_info", "Version.", lambda: {__version__: 1}, "version")
        gauge("ledger_entries", "Entries in the log.", lambda: self.ledger.log.head().size)
        gauge("live_streams", "Pages that follow a run.", lambda: self.board.streams)
        gauge("sessions", "Open sessions.", self.access.count_sessions)
        gauge("uploads_open", "Bundles on their way in.", self.uploads.count_open)
        gauge("scheduled_runs", "Times a schedule was due, by what came of it.", self.scheduler.counts, "state")
        gauge("open_regressions", "Regressions that still are.", lambda: len(self.watch.notices(still=True)))
        gauge("recomputed_results", "Results by what recomputing them came to.", self.recomputations.counts, "state")
        gauge("page_cache_hits", "Pages answered from memory.", lambda: self.cache.hits)
        gauge("page_cache_misses", "Pages made.", lambda: self.cache.misses)


def _provider(settings: ServerSettings) -> Provider | None:
    if settings.provider is None:
        return None
    secret = settings.environment.get(SECRET_VARIABLE)
    return Provider(settings.provider, secret, f"{settings.base_url}{RETURN_PATH}")
