"""Results pushed and recomputed while pages are read: how many a second, and what the readers feel of it.

    python benchmarks/ingest.py [--run FOLDER] [--kept FOLDER] [--rounds 3] [--seconds 10] [--rate 25] [--views 20]

From a real quickstart run (made first, in about three minutes, unless --run names a finished one) as many others are
made as results are pushed, each with samples, figures, documents and traces of its own (`ingest_results.py`; some two
seconds each, kept for the next time where --kept names a folder), and signed. Readers ask at a fixed rate, whether or
not the last answer came, and count from the moment that each view was due. A round has
three stretches of one sitting: views alone; views while agents push, the process that recomputes being stopped; views
while agents push and it works. The clock of the last one stops when the figures of every result that was sent are
recomputed from its samples (the rest of `verify` follows when none wait, and is counted apart). Bars: at least 20
results a second, and a p99 of views that is at most 20 % higher than without any of it. Whoever pushes and reads works
on the same cores: the processor time a result takes is told apart, and hardly depends on what else is running.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from http.client import HTTPConnection
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from hosted import Caller
from ingest_results import made_results
from lynxbench.evidence.documents import read_result
from lynxbench.ledger.location import locate, open_ledger
from lynxbench.server.access import Access
from lynxbench.server.key_registry import KeyRegistry
from lynxbench.server.limits import SUBMISSIONS_PER_MIN
from lynxbench.server.rights import AccessScope
from lynxbench.watch.recomputations import Recomputations
from lynxbench.watch.store import Store, store_url
from recording_teams import TEAM, make_team
from server_load import _card_bytes, free_port, serving

LEAST_PER_S, MOST_RATIO = 20.0, 1.2
READERS = 4
RECOMPUTING_MODULE = "lynxbench.server.recompute_worker"
STRETCHES = ALONE, PUSHING, RECOMPUTING = "views alone", "while pushed", "while pushed and recomputed"


def main() -> None:
    """Prepare, push, read, compare; exit code 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, help="folder of a finished run, in place of a quickstart made now")
    parser.add_argument("--kept", type=Path, help="where results made for this are kept, and taken from the next time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each stretch")
    parser.add_argument("--rate", type=float, default=25.0, help="results pushed a second")
    parser.add_argument("--views", type=float, default=20.0, help="page views a second")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-ingest-") as name:
        document = measured(Path(name), asked.run or quickstart(Path(name)), asked)
    print(json.dumps(document, indent=1) if asked.json else text_of(document))
    raise SystemExit(0 if document["holds"] else 1)


def quickstart(folder: Path) -> Path:
    """The folder of a quickstart run made now."""
    command = [sys.executable, "-m", "lynxbench", "run", "--ledger", "none", "--out", str(folder / "runs")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (run,) = (folder / "runs").iterdir()
    return run


def measured(folder: Path, run: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """All rounds, and what they come to."""
    a_round = round(asked.rate * asked.seconds)
    wanted = 2 * asked.rounds * a_round + 5
    refuse_too_much(folder, run, wanted)
    made = made_results(asked.kept or folder / "made", run, wanted)
    team, bundles, names = made.team, made.bundles, made.names
    host = make_team("bench", folder)
    card = team.keyring.keys.card(TEAM)
    host.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))
    location = locate(None, host.environment)
    assert location is not None
    with open_ledger(location, host.environment, create=True) as ledger:
        store = Store(store_url(None, location))
        access = Access(store)
        access.add_user("agents", TEAM, frozenset(AccessScope))
        agents = int(asked.rate * 60 / SUBMISSIONS_PER_MIN) + 2  # each within its own limit
        tokens = [access.make_token("agents", f"agent {n}", frozenset(AccessScope)).text for n in range(agents)]
        KeyRegistry(store, host.keyring.trust).register(_card_bytes(team), "ingest")
        known = Recomputations(store, ledger.log)
        port = free_port()
        with serving(host.environment, port) as child:
            pages = first_pages(port, tokens[0], bundles[:5], names[:5], read_result(run).contract_id)
            wait_until_recomputed(known, names[:5])
            rounds = []
            readers = Readers(port, pages, asked.views)
            for number in range(asked.rounds):
                mine = slice(5 + 2 * number * a_round, 5 + 2 * (number + 1) * a_round)
                rounds.append(one_round(port, readers, tokens, bundles[mine], names[mine], known, asked, child.pid))
            readers.close()
            before = wholly_verified(port)
            time.sleep(asked.seconds)
            whole_per_s = (wholly_verified(port) - before) / asked.seconds
        states = known.counts()
        store.close()
    asked_for = [one.pop("views_ms") for one in rounds]
    views = {key: [ms for one in asked_for for ms in one[key]] for key in STRETCHES}
    alone, pushing, whole = (percentile(views[key], 99) for key in STRETCHES)
    per_s = [one["recomputed_per_s"] for one in rounds]
    return {
        "bundle_bytes": bundles[0].stat().st_size,
        "files_a_result": sum(1 for path in run.rglob("*") if path.is_file()),
        "rounds": rounds,
        "outcomes": states,
        "recomputed_per_s": min(per_s),
        "wholly_verified_per_s": whole_per_s,
        "p99_ms": dict(zip(STRETCHES, (alone, pushing, whole), strict=True)),
        "p99_ratio": whole / alone,
        "p99_ratio_of_recomputing": whole / pushing,
        "holds": min(per_s) >= LEAST_PER_S and whole <= MOST_RATIO * alone and states["holds"] == len(names),
    }


def refuse_too_much(folder: Path, run: Path, results: int) -> None:
    """Each result is there three times: in its team's ledger, as a bundle, and in the server's ledger."""
    each = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    needed, free = 3 * results * each, shutil.disk_usage(folder).free
    if needed > 0.8 * free:
        sys.exit(
            f"{results} results of {each / 1e6:.0f} MB take {needed / 1e9:.0f} GB, and {free / 1e9:.0f} GB are free; "
            "give fewer (--rounds, --seconds, --rate), or a smaller --run"
        )


def first_pages(port: int, token: str, bundles: list[Path], names: list[str], contract_id: str) -> list[str]:
    """Push a few, so that there is something to read; the pages that readers ask for."""
    for bundle in bundles:
        answer = Caller(port, token).push(bundle.read_bytes())
        assert answer.status == 200, answer.text
    pages = ["/", "/contracts", "/results", "/ledger", "/executors", f"/contracts/{contract_id}"]
    pages += [f"/results/{name}" for name in names] + [f"/compare?a={names[0]}&b={names[1]}"]
    for page in pages:
        assert Caller(port).get(page).status == 200, page
    return pages


def wait_until_recomputed(known: Recomputations, names: list[str], seconds: float = 600) -> None:
    """Until every one of these results has an outcome."""
    until = time.monotonic() + seconds
    while any(outcome.at is None for outcome in known.of(names).values()):
        assert time.monotonic() < until, "results wait for ever"
        time.sleep(0.05)


def one_round(
    port: int,
    readers: Readers,
    tokens: list[str],
    bundles: list[Path],
    names: list[str],
    known: Recomputations,
    asked: argparse.Namespace,
    pid: int,
) -> dict[str, Any]:
    """Views alone, views while results are pushed, views while they are recomputed as well."""
    half = len(names) // 2
    (worker,) = (child for child in psutil.Process(pid).children() if RECOMPUTING_MODULE in child.cmdline())
    worker.suspend()
    readers.begin(asked.seconds)
    views = {ALONE: readers.end()}
    readers.begin(asked.seconds)
    pushed(port, tokens, bundles[:half], asked.rate)
    views[PUSHING] = readers.end()
    worker.resume()
    wait_until_recomputed(known, names[:half])
    spent, client, began = cpu_of(pid), time.process_time(), time.monotonic()
    readers.begin(asked.seconds)
    late_s = pushed(port, tokens, bundles[half:], asked.rate)
    sent_s = time.monotonic() - began
    views[RECOMPUTING] = readers.end()
    wait_until_recomputed(known, names[half:])
    whole_s = time.monotonic() - began
    took_s = {kind: now_s - spent.get(kind, 0.0) for kind, now_s in cpu_of(pid).items()}
    took_s["pushing"] = time.process_time() - client
    return {
        "recomputed_per_s": (len(names) - half) / whole_s,
        "pushed_per_s": (len(names) - half) / sent_s,
        "push_median_ms": 1000 * statistics.median(late_s),
        "cpu_ms_a_result": {kind: 1000 * seconds / (len(names) - half) for kind, seconds in took_s.items()},
        "p99_ms": {key: percentile(values, 99) for key, values in views.items()},
        "views_ms": views,
    }


def wholly_verified(port: int) -> float:
    """Results whose whole folder was verified, as the server counts them."""
    lines = Caller(port).get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("lynxbench_recomputed_total"))


def cpu_of(pid: int) -> dict[str, float]:
    """Processor seconds of the process that answers, and of those that it started, by what they do."""
    server = psutil.Process(pid)
    spent: dict[str, float] = {}
    for process in [server, *server.children(recursive=True)]:
        module = next((part for part in process.cmdline() if part.startswith("lynxbench.server.")), "serving")
        kind = module.removeprefix("lynxbench.server.").removesuffix("_worker")
        spent[kind] = spent.get(kind, 0.0) + sum(process.cpu_times()[:2])
    return spent


class Readers:
    """Processes that ask for pages when they are told to."""

    def __init__(self, port: int, pages: list[str], per_s: float) -> None:
        context = get_context("spawn")
        self._answers = context.Queue()
        self._told = [context.Queue() for _ in range(READERS)]
        self._processes = [
            context.Process(target=read_stretches, args=(port, pages, per_s, number, told, self._answers))
            for number, told in enumerate(self._told)
        ]
        for process in self._processes:
            process.start()
        for _ in self._processes:
            self._answers.get(timeout=300)  # ready

    def begin(self, seconds: float) -> None:
        """Ask for so long."""
        for told in self._told:
            told.put(seconds)

    def end(self) -> list[float]:
        """Milliseconds of every view, from when it was due."""
        return [ms for _ in self._processes for ms in self._answers.get(timeout=600)]

    def close(self) -> None:
        """No more."""
        for told, process in zip(self._told, self._processes, strict=True):
            told.put(None)
            process.join(timeout=60)


def read_stretches(port: int, pages: list[str], per_s: float, number: int, told: Any, answers: Any) -> None:
    """One reader, stretch after stretch."""
    answers.put([])
    while (seconds := told.get()) is not None:
        answers.put(read_pages(port, pages, per_s, seconds, number))


def read_pages(port: int, pages: list[str], per_s: float, seconds: float, number: int) -> list[float]:
    """Its share of the views, each when it is due."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    spent_ms: list[float] = []
    every_s, mine = READERS / per_s, cycle(pages[number:] + pages[:number])
    began = time.monotonic() + 0.1 + number / per_s
    for turn in range(int(seconds / every_s)):
        due = began + turn * every_s
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            connection.request("GET", next(mine))
            answer = connection.getresponse()
            answer.read()
        except OSError:  # an idle connection was ended: as a browser, ask again
            connection.close()
            connection.request("GET", next(mine))
            answer = connection.getresponse()
            answer.read()
        assert answer.status == 200, answer.status
        spent_ms.append(1000 * (time.monotonic() - due))
    connection.close()
    return spent_ms


def pushed(port: int, tokens: list[str], bundles: list[Path], rate: float) -> list[float]:
    """Push at a fixed rate, agents in turn; how late each was acknowledged after it was due."""
    began = time.monotonic()

    def push(turn: int) -> float:
        due = began + turn / rate
        time.sleep(max(0.0, due - time.monotonic()))
        answer = Caller(port, tokens[turn % len(tokens)]).push(bundles[turn].read_bytes())
        assert answer.status == 200, answer.text
        return time.monotonic() - due

    with ThreadPoolExecutor(len(tokens)) as agents:
        return list(agents.map(push, range(len(bundles))))


def percentile(values: list[float], percent: float) -> float:
    """Of a sorted list, the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def text_of(document: dict[str, Any]) -> str:
    """For people."""
    lines = [
        f"{document['files_a_result']} files and {document['bundle_bytes'] / 1e6:.2f} MB a result",
        *(
            f"round {number}: {one['recomputed_per_s']:.1f} recomputed/s of {one['pushed_per_s']:.1f} pushed/s; p99 of "
            "views "
            + ", ".join(f"{ms:.1f} ms {key}" for key, ms in one["p99_ms"].items())
            + "; processor time a result "
            + ", ".join(f"{ms:.0f} ms {key}" for key, ms in one["cpu_ms_a_result"].items())
            for number, one in enumerate(document["rounds"], 1)
        ),
        f"all: {document['recomputed_per_s']:.1f} recomputed/s at least, then "
        f"{document['wholly_verified_per_s']:.1f} wholly verified/s; p99 {document['p99_ratio']:.2f}× of "
        f"views alone, {document['p99_ratio_of_recomputing']:.2f}× of the same without recomputing; "
        f"outcomes {document['outcomes']}: {'holds' if document['holds'] else 'missed'}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
