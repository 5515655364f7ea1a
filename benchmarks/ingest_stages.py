"""Where the processor time of one pushed result goes, stage by stage: what `benchmarks/ingest.py` adds up.

    python benchmarks/ingest_stages.py --run FOLDER --kept FOLDER [--results 24] [--beside CHECKOUT] [--profile STAGE]

One process, no sockets and no readers: each result (`ingest_results.py`: all differ in every sample) is received (by
an earlier version: announced, received and hashed), taken in with as many others as `--together` says, recomputed from
its samples and judged by the functions that a server calls, one after the other, and the processor time of each is told
as a median over results. What a server adds to it is HTTP, what its processes say to each other, and pages that are
made again. On a machine that others use too, shared caches and cores make the same work take up to twice as long:
`--beside` names another checkout, and both take every result in turn, so that the noise meets both. `--profile STAGE`
shows which functions a stage spends its time in.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from ingest_results import MadeResults, made_results
from lynxbench.ledger.location import locate
from lynxbench.server.administration import ChangeAuthor
from lynxbench.server.api.submitting_api import _finish
from lynxbench.server.recompute_worker import recompute
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.recomputations import RecomputationState
from lynxbench.watch.store import store_url
from recording_teams import TEAM, make_team

ROOT = Path(__file__).resolve().parents[1]
WARM = 4
"""Results before the first that counts: modules are imported, statements compiled, laws remembered."""
JUDGED_TOGETHER = 4
"""Results that a round of judging finds: at 20 a second a quarter of a second brings as many."""
STAGES = ANNOUNCE, RECEIVE, HASH, TAKE_IN, FINISH, FIGURES, KEEP, JUDGE, WHOLE = (
    *("announce", "receive", "hash the upload", "take in", "finish", "figures", "keep the outcome", "judge"),
    "the whole of verify",
)
READY = "ready"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
T = TypeVar("T")
Spent = dict[str, list[float]]


def main() -> None:
    """Prepare, take in and recompute, tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished quickstart run")
    parser.add_argument("--kept", type=Path, required=True, help="where results made for this are kept")
    parser.add_argument("--results", type=int, default=24, help="results that count, after some that warm up")
    parser.add_argument("--whole", type=int, default=0, help="of them, so many are verified as a whole as well")
    parser.add_argument("--together", type=int, default=1, help="bundles that wait for each other")
    parser.add_argument("--beside", type=Path, help="another checkout, which takes every result in turn with this one")
    parser.add_argument("--profile", choices=STAGES, help="tell the functions of this stage")
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    made = made_results(asked.kept, asked.run, WARM + asked.results)
    if asked.beside is not None:
        tell(in_turn(asked, {"other": asked.beside, "this": ROOT}))
        return
    with tempfile.TemporaryDirectory(prefix="lynxbench-stages-") as name:
        clock = StageClock(asked.profile)
        stages = Stages(clock, Path(name), made, asked.whole, asked.together)
        if asked.turns:
            print(READY, flush=True)
        for number in range(WARM + asked.results):
            if asked.turns:
                sys.stdin.readline()
            stages.take(number)
            if asked.turns:
                print(json.dumps(clock.forget()), flush=True)
        stages.close()
    if asked.profile is not None:
        pstats.Stats(clock.profile).sort_stats("tottime").print_stats(45).sort_stats("cumtime").print_stats(90)
    if not asked.turns:
        tell({"this": clock.forget()})


def in_turn(asked: argparse.Namespace, checkouts: dict[str, Path]) -> dict[str, Spent]:
    """One process a checkout; what each spent on every result that counts."""
    command = [sys.executable, __file__, "--run", asked.run, "--kept", asked.kept, "--turns"]
    command += ["--results", str(asked.results), "--whole", str(asked.whole), "--together", str(asked.together)]
    spent: dict[str, Spent] = {}
    children = {
        name: subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(checkout.resolve() / "src")},
        )
        for name, checkout in checkouts.items()
    }
    for child in children.values():
        assert child.stdout is not None
        assert child.stdout.readline().strip() == READY
    for _ in range(WARM + asked.results):
        for name, child in children.items():
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("next\n")
            child.stdin.flush()
            for stage, times in json.loads(child.stdout.readline()).items():
                spent.setdefault(name, {}).setdefault(stage, []).extend(times)
    for child in children.values():
        child.communicate()
    return spent


def tell(spent: dict[str, Spent]) -> None:
    """A line a stage: medians, and the least that one result took."""
    print("stage".ljust(22) + "".join(f"{f'{name}: median, least ms':>28}" for name in spent))
    total = dict.fromkeys(spent, 0.0)
    for stage in STAGES:
        cells = ""
        for name, known in spent.items():
            times = known.get(stage, [])
            if times:
                cells += f"{statistics.median(times):>20.1f}{min(times):>8.1f}"
                total[name] += statistics.median(times) if stage != WHOLE else 0.0
            else:
                cells += f"{'—':>20}{'':8}"
        if any(known.get(stage) for known in spent.values()):
            print(f"{stage:22}{cells}")
    print(f"{'all but the last':22}" + "".join(f"{ms:>20.1f}{'':8}" for ms in total.values()))


def _takes_whole(server: Server) -> bool:
    """Whether a version takes a bundle by one request."""
    return hasattr(server, "intake")


class StageClock:
    """Processor time by stage, of results that count."""

    def __init__(self, profiled: str | None) -> None:
        self._profiled, self._spent_ms = profiled, Spent()
        self.profile, self.counts = cProfile.Profile(time.thread_time), False
        self._inside_s = 0.0

    def time(self, stage: str, work: Callable[[], T], shared_by: int = 1) -> T:
        """Do something, which is done once for so many results; stages inside of it count for themselves alone."""
        watched, outside_s, self._inside_s = self.counts and stage == self._profiled, self._inside_s, 0.0
        if watched:
            self.profile.enable()
        began = time.process_time()
        made = work()
        spent_s = time.process_time() - began
        if watched:
            self.profile.disable()
        if self.counts:
            self._spent_ms.setdefault(stage, []).append(1000 * (spent_s - self._inside_s) / shared_by)
        self._inside_s = outside_s + spent_s
        return made

    def forget(self) -> Spent:
        """What was counted since this was asked last."""
        spent, self._spent_ms = self._spent_ms, Spent()
        return spent


class Stages:
    """A server that nobody listens to, and results that go through it."""

    def __init__(self, clock: StageClock, folder: Path, made: MadeResults, whole: int, together: int) -> None:
        self._clock, self._folder, self._made, self._whole = clock, folder, made, whole
        self._together = together
        host = make_team("bench", folder)
        card = made.team.keyring.keys.card(TEAM)
        host.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))
        location = locate(None, host.environment)
        assert location is not None
        settings = ServerSettings(environment=host.environment, upload_folder=folder / "uploads")
        self._server = server = Server(settings, location, store_url(None, location))
        server.watch.pending()
        # parts of finishing that are told apart
        if _takes_whole(server):
            take_all = server.take_in_all
            server.take_in_all = lambda offers: clock.time(  # type: ignore[method-assign]
                TAKE_IN, lambda: take_all(offers), len(offers)
            )
        else:
            whole_of, take_in = server.uploads.whole, server.take_in
            server.uploads.whole = lambda upload: clock.time(HASH, lambda: whole_of(upload))  # type: ignore[method-assign]
            server.take_in = lambda path, who: clock.time(  # type: ignore[method-assign]
                TAKE_IN, lambda: take_in(path, who)
            )

    def take(self, number: int) -> None:
        """One result through every stage."""
        clock, server, result_id = self._clock, self._server, self._made.names[number]
        clock.counts = number >= WARM
        if number % self._together == 0:
            self._push([path.read_bytes() for path in self._made.bundles[number : number + self._together]])
        verify = partial(recompute, server.ledger, result_id, self._folder / "run")
        outcome = clock.time(FIGURES, partial(verify, whole=False))
        assert outcome[0] is RecomputationState.HOLDS, outcome
        clock.time(KEEP, self._keep)
        if (number + 1) % JUDGED_TOGETHER == 0:
            clock.time(JUDGE, server._judge, JUDGED_TOGETHER)
        if WARM - 1 <= number < WARM + self._whole:
            outcome = clock.time(WHOLE, partial(verify, whole=True))
            assert outcome[0] is RecomputationState.HOLDS, outcome

    def close(self) -> None:
        """No more."""
        self._server.stop()

    def _push(self, bundles: list[bytes]) -> None:
        """As the routes of the API do it: by one request each where the version has it, and those that wait together.

        A version that takes bundles in pieces alone is given them one after the other.
        """
        clock, server, shared_by = self._clock, self._server, len(bundles)
        who, by = Principal("agents", TEAM, frozenset(AccessScope), "token"), ChangeAuthor("agents")
        if not _takes_whole(server):
            for data in bundles:
                self._push_in_pieces(data, who, by)
            return
        from lynxbench.server.intake_queue import WaitingBundle

        receive = server.uploads.receive
        waiting = []
        for data in bundles:
            pushed = clock.time(RECEIVE, partial(receive, TEAM, data, who.label))
            waiting.append(WaitingBundle(pushed, who, by, None))
        clock.time(FINISH, lambda: server.intake.take_in(waiting), shared_by)
        assert all(each.made.result(timeout=0).outcome.new_results for each in waiting)

    def _push_in_pieces(self, data: bytes, who: Principal, by: ChangeAuthor) -> None:
        clock, server, uploads = self._clock, self._server, self._server.uploads
        digest = hashlib.sha256(data).hexdigest()
        given = (TEAM, digest, len(data), who.label)
        upload = clock.time(
            ANNOUNCE, lambda: server.audit.carry_out(by, "announce bundle", digest[:12], uploads.begin, *given)
        )
        clock.time(RECEIVE, lambda: uploads.append(uploads.get(upload.upload_id, TEAM), 0, data))
        clock.time(FINISH, lambda: _finish(server, who, by, upload.upload_id, None))

    def _keep(self) -> None:
        """What was recomputed is written down, and what is due next is asked for."""
        due = self._server.recomputations.due_together(16)
        said = ["its samples give its figures"]
        self._server.recomputations.keep_all([(each, RecomputationState.HOLDS, said) for each in due])


if __name__ == "__main__":
    main()
