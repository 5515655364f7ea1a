"""The server at size: readers on every kind of page while agents submit, then killed and started again.

    python benchmarks/server_load.py [--results 100000] [--seconds 20] [--readers 50] [--agents 4] [--on sqlite] [--at]

The ledger holds that many signed results of twenty contracts, each with its text, on executors of 214 fields that
change every 35 results of a contract. Of every hundredth result, up to two hundred, the whole document is there, and
of the two beside every change that a contract's page shows. Readers are wrk's connections (Debian package wrk), each
asking for the next page of a list as soon as the last one came, on this same machine. Agents are processes that record
a result, push it as a signed bundle over HTTP, and begin again after `--every` seconds. Then the server is killed
(SIGKILL) and started again; every submission that was acknowledged must be in the ledger afterwards, and the log must
recompute. `--at` keeps an SQLite ledger, which takes minutes to fill, for the next time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from compared import make_contract, make_executor, make_result
from hosted import Caller
from ledgers import postgres_server
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import ContractAgreed, Entry, ResultRecorded
from lynxbench.model.figures import Figure
from lynxbench.model.result import Result
from lynxbench.server.access import Access
from lynxbench.server.key_registry import KeyRegistry
from lynxbench.server.ledger_views import NEWEST
from lynxbench.server.rights import AccessScope
from lynxbench.stats.intervals import mean_interval
from lynxbench.watch.store import Store, store_url
from recording_teams import TEAM, make_team, record

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SAME_STACK = 700
"""Results, of all contracts together, between two changes of the executor."""
PACKAGES = 200
"""Fields of an executor beside its others: as many as a captured one has."""
CONTRACTS = 20
WHOLE_EVERY = 100
MOST_WHOLE = 200
BATCH = 200
P99_MS, P90_AFTER_MS = 250, 500
"""Bars of a view: while agents submit, and from the moment that a killed server answers again."""
SCRIPT = """
local paths = {%s}
local at = 0
request = function()
  at = at + 1
  return wrk.format("GET", paths[(at - 1) %% #paths + 1])
end
done = function(summary, latency, requests)
  io.write(string.format("\\n{\\"requests\\": %%d, \\"duration_us\\": %%d, \\"p50_us\\": %%d, \\"p90_us\\": %%d, ",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(90)))
  io.write(string.format("\\"p99_us\\": %%d, \\"max_us\\": %%d, \\"errors\\": %%d, \\"status\\": %%d}\\n",
    latency:percentile(99), latency.max,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.errors.status))
end
"""


def main() -> None:
    """Fill, serve, load, kill, check; one JSON document for each database."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--every", type=float, default=1.0, help="seconds an agent rests between two submissions")
    parser.add_argument(
        "--at", type=Path, help="folder that keeps the filled ledger; it is gone on with (SQLite alone)"
    )
    parser.add_argument("--on", nargs="*", choices=("sqlite", "postgres"), default=("sqlite", "postgres"))
    asked = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not there, and filling a ledger takes minutes: make .stamps/wrk first")
    for kind in asked.on:
        with tempfile.TemporaryDirectory(prefix="lynxbench-load-") as name:
            if kind == "sqlite":
                found = on_database(asked.at or Path(name), None, asked)
            else:
                with postgres_server() as url:
                    found = on_database(Path(name), url, asked)
        print(json.dumps({kind: found}, indent=1), flush=True)


def on_database(folder: Path, url: str | None, asked: argparse.Namespace) -> dict[str, Any]:
    """Everything on one database."""
    kept = folder / "filled.json"
    if kept.exists():
        filled = json.loads(kept.read_text())
        assert filled["results"] == asked.results, f"{folder} holds {filled['results']} results"
    else:
        filled = prepare(folder, url, asked.results)
        kept.write_text(json.dumps(filled))
    environment, pages, token = filled["environment"], filled["pages"], filled["token"]
    location = locate(None, environment)
    assert location is not None
    said: dict[str, Any] = {"results": asked.results, "filled_s": filled["filled_s"], "pages": len(pages)}
    port = free_port()
    with serving(environment, port) as child:
        signs = [f"{page}?signs=true" for page in pages if page.startswith("/contracts/")][:3]
        said["first view, ms"] = first_views(port, pages + signs)
        said["second view, ms"] = first_views(port, pages)
        stop = get_context("spawn").Event()
        workers, queue = start_agents(folder, port, token, asked.agents, asked.every, stop)
        time.sleep(2)
        said["while agents submit"] = load(port, pages, asked.readers, asked.seconds, child.pid)
        child.send_signal(signal.SIGKILL)
        child.wait()
        time.sleep(1)
        with serving(environment, port) as second:
            said["after a kill and a restart"] = load(
                port, pages, asked.readers, max(5, asked.seconds // 2), second.pid
            )
            stop.set()
            acknowledged = [queue.get(timeout=120) for _ in workers]
            for worker in workers:
                worker.join(timeout=60)
    names = [name for one in acknowledged for name in one["acknowledged"]]
    said["submissions acknowledged"] = len(names)
    said["submission median, ms"] = round(
        1000 * statistics.median([s for one in acknowledged for s in one["spent_s"]]), 1
    )
    said["submissions retried"] = sum(one["retried"] for one in acknowledged)
    with open_ledger(location, environment) as ledger:
        from lynxbench.ledger.queries import find_result

        lost = [name for name in names if find_result(ledger.log, name) is None]
        assert recompute(ledger.log) == ledger.log.head()
        said["lost"] = len(lost)
        said["entries"] = ledger.log.head().size
    good, after = said["while agents submit"], said["after a kill and a restart"]
    said["bars"] = {
        f"p99 at most {P99_MS} ms while agents submit": good["p99_ms"] <= P99_MS,
        f"p90 at most {P90_AFTER_MS} ms after a restart": after["p90_ms"] <= P90_AFTER_MS,
        "none failed, none lost": not lost and not good["failed"] and not after["failed"],
    }
    said["holds"] = all(said["bars"].values())
    return said


def prepare(folder: Path, url: str | None, results: int) -> dict[str, Any]:
    """A filled ledger, a team that may submit, and the pages that readers will ask for."""
    folder.mkdir(parents=True, exist_ok=True)
    team = make_team(TEAM, folder)
    host = make_team("bench", folder)
    card = team.keyring.keys.card(TEAM)
    host.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))
    environment = dict(host.environment)
    if url is not None:
        environment |= {"LYNXBENCH_LEDGER": url, "LYNXBENCH_BLOBS": str(folder / "blobs")}
    location = locate(None, environment)
    assert location is not None
    start = time.perf_counter()
    with open_ledger(location, environment, create=True) as ledger:
        pages = fill(ledger, team.key, results)
    filled_s = time.perf_counter() - start
    store = Store(store_url(None, location))
    access = Access(store)
    access.add_user("agents", TEAM, frozenset(AccessScope))
    token = access.make_token("agents", "load", frozenset(AccessScope)).text
    KeyRegistry(store, host.keyring.trust).register(_card_bytes(team), "load")
    store.close()
    return {
        "results": results,
        "filled_s": round(filled_s, 1),
        "environment": environment,
        "pages": pages,
        "token": token,
    }


def fill(ledger: OpenLedger, key: SigningKey, count: int) -> list[str]:
    """Signed results, most as entries alone; the pages that readers will ask for."""
    contracts = [
        make_contract(name=f"contract-{number:02d}", question=f"Does number {number} hold?")
        for number in range(CONTRACTS)
    ]
    many = {f"framework.package_{number:03d}": f"{number}.1.0" for number in range(PACKAGES)}
    stacks = [make_executor({**many, "framework.torch": f"2.{number}.0"}) for number in range(8)]
    ledger.log.append_all(
        [_sealed(ContractAgreed(contract_id=one.contract_id, contract=one), key) for one in contracts]
    )
    whole: list[Result] = []
    batch: list[Envelope] = []
    bodies: dict[tuple[int, int], ResultRecorded] = {}
    for number in range(count):
        at, stack = number % CONTRACTS, (number // SAME_STACK) % len(stacks)
        if number % WHOLE_EVERY == 0 and len(whole) < MOST_WHOLE:
            whole.append(record(ledger, made(number, contracts[at], stacks[stack]), key))
            continue
        if number >= count - NEWEST * CONTRACTS and not CONTRACTS <= number % SAME_STACK < SAME_STACK - CONTRACTS:
            record(ledger, made(number, contracts[at], stacks[stack]), key)
            continue
        if (at, stack) not in bodies:
            like = made(number, contracts[at], stacks[stack])
            bodies[at, stack] = summary_of(like, nonce="n" * 32, attempts=5)
        batch.append(_sealed(renumbered(bodies[at, stack], number), key))
        if len(batch) == BATCH:
            ledger.log.append_all(batch)
            batch = []
    ledger.log.append_all(batch)
    pages = ["/", "/contracts", "/results", "/ledger", "/executors", "/decisions", "/runs", "/claims", "/compare"]
    pages += [f"/contracts/{one.contract_id}" for one in contracts]
    pages += [f"/results?contract={one.contract_id}" for one in contracts[:5]]
    pages += [f"/results/{one.result_id}" for one in whole[:40]]
    pages += [f"/executors/{one.executor_id}" for one in stacks[: max(1, min(8, count // 700))]]
    if len(whole) > 40:
        pages += [f"/compare?a={whole[0].result_id}&b={whole[20].result_id}"]
    return pages


def renumbered(body: ResultRecorded, number: int) -> ResultRecorded:
    """The same entry for another run: quicker than making a whole result that nobody opens."""
    means, started = means_of(number), started_of(number)
    interval = mean_interval(means)
    figure = Figure(low=interval.low, estimate=interval.estimate, high=interval.high, unit="sequences/s")
    one = body.per_precision[0].model_copy(update={"throughput": figure, "run_means": means})
    name = hashlib.sha256(f"load {number}".encode()).hexdigest()
    times = {"started_at": started, "finished_at": started}
    return body.model_copy(update={"result_id": name, "run_id": f"load-{number}", "per_precision": (one,), **times})


def means_of(number: int) -> tuple[float, ...]:
    """Five restarts with some noise and, late in every five thousand, a step."""
    level = 100.0 * (0.93 if number % 5000 > 4000 else 1.0)
    return tuple(level * (1 + 0.003 * ((number * 7 + i * 3) % 11 - 5) / 5) for i in range(5))


def started_of(number: int) -> str:
    """A minute after the one before."""
    return (BEGIN + timedelta(seconds=60 * number)).isoformat(timespec="seconds")


def made(number: int, contract: Any, executor: Any, prefix: str = "load") -> Result:
    """One whole result of the series."""
    result = make_result(
        contract=contract, executor=executor, run_means=means_of(number), started_at=started_of(number)
    )
    return result.model_copy(update={"run_id": f"{prefix}-{number}"}).sealed()


def first_views(port: int, pages: list[str]) -> dict[str, float]:
    """Server time of each page, by kind, as the server itself says it; the slowest of a kind."""
    caller, spent = Caller(port), {}
    for page in pages:
        answer = caller.get(page)
        assert answer.status == 200, (page, answer.status, answer.text[-300:])
        found = re.search(r"dur=([0-9.]+)", answer.headers["server-timing"])
        assert found is not None
        kind = re.sub(r"[0-9a-f]{64}", "ID", page)
        spent[kind] = max(spent.get(kind, 0.0), float(found[1]))
    return spent


def load(port: int, pages: list[str], readers: int, seconds: int, pid: int) -> dict[str, Any]:
    """wrk over all pages in turn; also what the server's process spent, and how busy the machine was with others."""
    server, host = psutil.Process(pid), psutil.cpu_times()
    before, began = sum(server.cpu_times()[:2]), time.perf_counter()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT % ",".join(json.dumps(page) for page in pages))
        script.flush()
        command = ["wrk", "-t1", f"-c{readers}", f"-d{seconds}s", "--timeout", "10s", "-s", script.name]
        done = subprocess.run([*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    spent, wall = sum(server.cpu_times()[:2]) - before, time.perf_counter() - began
    stolen = getattr(psutil.cpu_times(), "steal", 0.0) - getattr(host, "steal", 0.0)
    return {
        "stolen_by_the_host": round(stolen / wall / (os.cpu_count() or 1), 2),
        "server_cpu_share": round(spent / wall, 2),
        "server_cpu_ms_a_view": round(1000 * spent / max(1, found["requests"]), 2),
        "load_average": round(os.getloadavg()[0], 1),
        "views_per_s": round(found["requests"] / (found["duration_us"] / 1e6), 1),
        "p50_ms": round(found["p50_us"] / 1000, 1),
        "p90_ms": round(found["p90_us"] / 1000, 1),
        "p99_ms": round(found["p99_us"] / 1000, 1),
        "max_ms": round(found["max_us"] / 1000, 1),
        "failed": found["errors"] + found["status"],
    }


def start_agents(folder: Path, port: int, token: str, count: int, every: float, stop: Event) -> tuple[list[Any], Any]:
    """Processes that submit."""
    context = get_context("spawn")
    queue = context.Queue()
    arguments = (str(folder), str(time.time_ns()), port, token, every, stop, queue)
    workers = [context.Process(target=submit_many, args=(number, *arguments)) for number in range(count)]
    for worker in workers:
        worker.start()
    return workers, queue


def submit_many(
    number: int, folder: str, sitting: str, port: int, token: str, every: float, stop: Event, queue: Any
) -> None:
    """Record and push one result after the other until told to stop; what was acknowledged."""
    os.nice(5)
    team = make_team_again(Path(folder), f"agent-{sitting}-{number}")
    contract = make_contract(name=f"contract-{number:02d}", question=f"Does number {number} hold?")
    caller = Caller(port, token)
    acknowledged, spent, retried, at = [], [], 0, 0
    while not stop.is_set():
        at += 1
        result = made(10_000_000 + number * 100_000 + at, contract, make_executor(), f"agent-{sitting}-{number}")
        with tempfile.TemporaryDirectory():
            data = team.bundle(sealed_as_recorded(result))
        name = sealed_as_recorded(result).result_id
        start = time.perf_counter()
        while True:
            try:
                answer = caller.submit(data)
                if answer.status == 200:
                    break
                assert answer.status in (429, 503), answer.text
            except (OSError, ConnectionError):
                pass
            retried += 1
            if stop.is_set() and retried > 200:
                break
            time.sleep(0.2)
        spent.append(time.perf_counter() - start)
        acknowledged.append(name)
        stop.wait(every)
    queue.put({"acknowledged": acknowledged, "spent_s": spent, "retried": retried})


def make_team_again(folder: Path, name: str) -> Any:
    """The team's key with a ledger of this agent's own."""
    from recording_teams import Team

    home = folder / TEAM
    return Team(TEAM, home, {"LYNXBENCH_HOME": str(home), "LYNXBENCH_LEDGER": str(folder / name)})


def sealed_as_recorded(result: Result) -> Result:
    """The result with the samples file that recording it writes."""
    from lynxbench.evidence.sample_file import write_samples

    with tempfile.TemporaryDirectory() as folder:
        samples = write_samples(Path(folder) / "samples.npz", ())
    return result.model_copy(update={"samples": samples}).sealed()


@contextmanager
def serving(environment: dict[str, str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`lynxbench serve` in a process of its own, until the block ends."""
    command = [sys.executable, "-m", "lynxbench", "serve", "--port", str(port), "--public-read", "--quiet"]
    child = subprocess.Popen([*command, "--requests-per-s", "0"], env={**os.environ, **environment})
    try:
        until = time.monotonic() + 120
        while True:
            try:
                if Caller(port).get("/readyz").status == 200:
                    break
            except OSError:
                pass
            assert child.poll() is None, "the server ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait(timeout=30)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as made_:
        made_.bind(("127.0.0.1", 0))
        return int(made_.getsockname()[1])


def _sealed(body: Any, key: SigningKey) -> Envelope:
    return seal_entry(Entry(made_at="2026-11-15T09:00:00+00:00", body=body), [key])


def _card_bytes(team: Any) -> bytes:
    from lynxbench.model.canonical import canonical_bytes

    return canonical_bytes(json.loads(team.keyring.keys.card(TEAM).model_dump_json()))


if __name__ == "__main__":
    main()
