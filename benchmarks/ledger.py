"""The ledger at size: append with proofs, lists, history, kill -9, concurrent writers, a full disk; MLflow beside it.

    python benchmarks/ledger.py [--results 100000] [--kills 200] [--mlflow-python PYTHON] [--only PART ...]

Every appended entry is signed, validated, hashed into the tree, durable (SQLite, WAL, synchronous=FULL) and proven to
be included before the next one. MLflow logs the same runs: the same parameters, tags and metrics, one run at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from command_line import QUICK_CONTRACT, SPINNING
from killing import acknowledged_before_kill, stored_in
from ledgers import decision, key_of, postgres_server, recorded, registered, sealed, sha
from lynxbench.errors import BadLedger
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.merkle import includes
from lynxbench.ledger.queries import Wanted, history, list_results, open_runs
from lynxbench.ledger.result_standings import standings
from lynxbench.model.precision import Precision

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
KEY = key_of("alpha")
"""One team's: a run belongs to whoever registered it."""
SINGLY = 2000
"""Appends that are timed one by one, at the beginning and at the end; the rest is filled in by batches."""
BATCH = 50
HISTORY = 10_000
WRITERS, EACH = 8, 100
KILLS_A_LEDGER = 20
"""Then a new ledger: after each kill all of it is recomputed."""
RUN_KILLS_LIMIT_S = 1800
"""Runs take seconds each; what was killed by then is counted."""
PARTS = ("size", "mlflow", "kill", "kill-run", "writers", "disk")

MLFLOW = """
import json, sys, time
import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient
uri, count = sys.argv[1], int(sys.argv[2])
client = MlflowClient(tracking_uri=uri)
experiment = client.create_experiment("contract")
def log(number):
    run = client.create_run(experiment, run_name=f"run-{number}")
    now = int(time.time() * 1000)
    params = [Param(f"layer_{layer}", "%064x" % (number * 9 + layer)) for layer in range(9)]
    params += [Param("contract_id", "%064x" % 1), Param("executor_id", "%064x" % 2), Param("precision", "fp32")]
    metrics = [Metric(name, 100.0 + number, now, 0) for name in ("low", "estimate", "high")]
    metrics += [Metric("run_mean", 100.0 + step, now, step) for step in range(5)]
    tags = [RunTag("validity", "valid"), RunTag("bottleneck", "compute")]
    client.log_batch(run.info.run_id, metrics, params, tags)
    client.set_terminated(run.info.run_id)
log(0)
start = time.perf_counter()
for number in range(1, count + 1):
    log(number)
logged = count / (time.perf_counter() - start)
times = []
for _ in range(5):
    start = time.perf_counter()
    found = client.search_runs([experiment], "params.precision = 'fp32' and tags.validity = 'valid'", max_results=20)
    times.append(time.perf_counter() - start)
assert len(found) == 20
print(json.dumps({"runs": count, "logged_per_s": logged, "list_s": sorted(times)[2], "version": mlflow.__version__}))
"""


def main() -> None:
    """Measure what was asked for and print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mlflow-python", help="a Python that has mlflow-skinny and sqlalchemy")
    parser.add_argument("--mlflow-runs", type=int, default=300)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    asked = parser.parse_args()
    work: dict[str, Callable[[Path], object]] = {
        "size": lambda folder: at_size(folder, asked.results),
        "mlflow": lambda folder: beside_mlflow(folder, asked.mlflow_python, asked.mlflow_runs),
        "kill": lambda folder: kill_appends(folder, asked.kills),
        "kill-run": lambda folder: kill_runs(folder, asked.kills),
        "writers": concurrent_writers,
        "disk": full_disk,
    }
    for part in asked.only:
        with tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
            print(json.dumps({part: work[part](Path(folder))}, indent=1), flush=True)


def envelopes(first: int, count: int) -> Iterator[Envelope]:
    """Signed results: twenty contracts, the first of which has the long history; forty executors, a rare precision."""
    for number in range(first, first + count):
        yield sealed(
            recorded(
                str(number),
                contract=contract_of(number),
                executor=f"executor {number % 40}",
                precisions=(Precision.FP32, Precision.INT8) if number % 2 else (Precision.FP32,),
                started_at=(BEGIN + timedelta(seconds=30 * number)).isoformat(timespec="seconds"),
                estimate=100 + number % 7,
            ),
            KEY,
        )


def contract_of(number: int) -> str:
    """The first ten thousand are one contract's history."""
    return "long" if number < HISTORY else f"contract {number % 19}"


def append_singly(ledger: Ledger, first: int, count: int) -> dict[str, float]:
    """Sign, append and prove one result after the other."""
    times, sealing = [], 0.0
    source = envelopes(first, count)
    for _ in range(count):
        start = time.perf_counter()
        envelope = next(source)
        signed = time.perf_counter()
        proof = ledger.prove(ledger.append(envelope))
        times.append(time.perf_counter() - signed)
        sealing += signed - start
        assert includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
    total = sum(times)
    return {
        "append_and_prove_per_s": round(count / total, 1),
        "with_signing_per_s": round(count / (total + sealing), 1),
        "median_ms": round(1000 * statistics.median(times), 3),
        "p99_ms": round(1000 * sorted(times)[int(0.99 * count)], 3),
    }


def at_size(folder: Path, size: int) -> dict[str, object]:
    """Append, list and read a history in a ledger of that many results."""
    said: dict[str, object] = {"results": size}
    home = folder / "home"
    url = f"sqlite:///{home / 'ledger' / 'ledger.sqlite'}"
    with Ledger(url) as ledger:
        single = min(SINGLY, size // 4)
        said["at the beginning"] = append_singly(ledger, 0, single)
        start, filled = time.perf_counter(), 0
        batch: list[Envelope] = []
        for envelope in envelopes(single, size - 2 * single):
            batch.append(envelope)
            if len(batch) == BATCH:
                filled, batch = filled + append_together(ledger, batch), []
        filled += append_together(ledger, batch)
        said[f"{BATCH} together, with signing, per_s"] = round(filled / (time.perf_counter() - start), 1)
        print(json.dumps(said), file=sys.stderr, flush=True)
        said["at the end"] = append_singly(ledger, size - single, single)
        said["registered, of those without an end"] = register_many(ledger, size)
        asked = {
            "all": Wanted(),
            "contract": Wanted(contract=sha("contract 7")),
            "executor": Wanted(executor=sha("executor 3")),
            "precision": Wanted(precision="int8"),
            "contract, precision, since": Wanted(
                contract=sha("contract 7"), precision="int8", since_s=int(BEGIN.timestamp()) + 30 * size // 2
            ),
            "valid": Wanted(validity="valid"),
            "nothing fits": Wanted(contract=sha("contract 7"), validity="void"),
        }
        said["list_s"] = {name: timed(lambda one=wanted: listed(ledger, one)) for name, wanted in asked.items()}  # type: ignore[misc]
        said["history_s"] = timed(lambda: history(ledger, sha("long")))
        said["history_points"] = len(history(ledger, sha("long")))
        print(json.dumps(said), file=sys.stderr, flush=True)
        start = time.perf_counter()
        assert recompute(ledger) == ledger.head()
        said["recompute_s"] = round(time.perf_counter() - start, 2)
    environment = {**os.environ, "LYNXBENCH_HOME": str(home)}
    command = [sys.executable, "-m", "lynxbench", "results", "list", "--precision", "int8", "--json"]
    said["whole command `results list`, s"] = timed(
        lambda: subprocess.run(command, env=environment, check=True, capture_output=True)
    )
    said["file_mb"] = round((home / "ledger" / "ledger.sqlite").stat().st_size / 1e6, 1)
    return said


def append_together(ledger: Ledger, batch: list[Envelope]) -> int:
    """One transaction and one flush for all of them, and a proof of each."""
    for proof in ledger.prove_all(ledger.append_all(batch)):
        assert includes(proof.leaf, proof.seq, proof.head.size, proof.path, proof.head.root)
    return len(batch)


def register_many(ledger: Ledger, size: int) -> tuple[int, int]:
    """Registrations of runs that have results, and a few that never got one."""
    count, unfinished = size // 10, 20
    bodies = [registered(str(number), contract_of(number)) for number in range(count)]
    bodies += [registered(f"killed {number}") for number in range(unfinished)]
    for start in range(0, len(bodies), 500):
        ledger.append_all([sealed(body, KEY) for body in bodies[start : start + 500]])
    assert len(open_runs(ledger)) == unfinished
    return count + unfinished, unfinished


def listed(ledger: Ledger, wanted: Wanted) -> None:
    """What `results list` asks: the results, their standing, the runs without an end."""
    found = list_results(ledger, wanted)
    standings(ledger, [one.result_id for one in found], TrustList())
    open_runs(ledger, wanted.contract)


def timed(work: Callable[[], object], times: int = 5) -> float:
    """The median of a few calls, in seconds."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return round(statistics.median(spent), 4)


def beside_mlflow(folder: Path, python: str | None, runs: int) -> dict[str, object]:
    """The same runs logged by MLflow's file store and SQLite store, and appended here, in one sitting."""
    said: dict[str, object] = {}
    with Ledger(f"sqlite:///{folder / 'ledger.sqlite'}") as ledger:
        said["lynxbench, SQLite"] = append_singly(ledger, 0, runs)
        wanted = Wanted(precision="fp32", validity="valid")
        said["lynxbench list_s"] = timed(lambda: list_results(ledger, wanted))
        said["lynxbench list_s, with everybody's word on each result"] = timed(lambda: listed(ledger, wanted))
    if python is None:
        return {**said, "mlflow": "give --mlflow-python"}
    for name, uri in (("file", (folder / "mlruns").as_uri()), ("SQLite", f"sqlite:///{folder / 'mlflow.db'}")):
        done = subprocess.run(
            [python, "-W", "ignore", "-c", MLFLOW, uri, str(runs)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"},
        )
        said[f"mlflow, {name}"] = json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[-300:]
    return said


def kill_appends(folder: Path, kills: int) -> dict[str, object]:
    """kill -9 at random moments of an append loop; after each, every acknowledged entry must be there."""
    chance, total = random.Random(9), 0
    acknowledged: set[str] = set()
    for kill in range(kills):
        if kill % KILLS_A_LEDGER == 0:
            total, acknowledged = total + len(acknowledged), set()
        url = f"sqlite:///{folder / f'{kill // KILLS_A_LEDGER}.sqlite'}"
        acknowledged |= acknowledged_before_kill(url, str(kill), chance.uniform(0, 0.1))
        assert acknowledged <= stored_in(url), "an acknowledged entry was lost"
    return {"kills": kills, "acknowledged": total + len(acknowledged), "lost": 0}


def kill_runs(folder: Path, kills: int) -> dict[str, object]:
    """kill -9 at random moments of `lynxbench run`; after each, the ledger opens, verifies and has kept what it had."""
    (folder / "spin.yaml").write_text(QUICK_CONTRACT.replace("restarts: 2", "restarts: 1"))
    (folder / "spinning.py").write_text(SPINNING)
    environment = {**os.environ, "LYNXBENCH_HOME": str(folder / "home")}
    url, chance = f"sqlite:///{folder / 'home' / 'ledger' / 'ledger.sqlite'}", random.Random(5)
    command = [sys.executable, "-m", "lynxbench", "run", "spin.yaml"]
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    whole_s, before, ended = time.perf_counter() - start, 0, 0
    for done in range(kills):
        if time.perf_counter() - start > RUN_KILLS_LIMIT_S:
            kills = done
            break
        child = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            child.wait(chance.uniform(0.3, 1.0) * whole_s)
            ended += 1
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        with Ledger(url) as ledger:
            head = recompute(ledger)
            assert head == ledger.head()
            assert head.size >= before, "an entry was lost"
            before = head.size
            unfinished = len(open_runs(ledger))
    return {"kills": kills - ended, "ended before": ended, "entries": before, "registered without an end": unfinished}


def write_many(url: str, writer: int) -> list[tuple[int, str]]:
    """One writer's share."""
    key, done = key_of(f"team-{writer}"), []
    with Ledger(url, blobs="somewhere") as ledger:
        for number in range(EACH):
            envelope = sealed(decision(f"writer {writer} entry {number}"), key)
            done.append((ledger.append(envelope), envelope.to_bytes().hex()))
    return done


def concurrent_writers(folder: Path) -> dict[str, object]:
    """Eight processes at once on each database."""
    said: dict[str, object] = {"writers": WRITERS, "entries each": EACH}
    with databases(folder) as urls:
        for name, url in urls.items():
            Ledger(url, blobs="somewhere").close()
            start = time.perf_counter()
            with ProcessPoolExecutor(WRITERS, mp_context=get_context("spawn")) as pool:
                parts = list(pool.map(write_many, [url] * WRITERS, range(WRITERS)))
            spent = time.perf_counter() - start
            acknowledged = dict(pair for part in parts for pair in part)
            with Ledger(url, blobs="somewhere") as ledger:
                assert recompute(ledger) == ledger.head()
                assert sorted(acknowledged) == list(range(WRITERS * EACH)) == list(range(ledger.head().size))
                there = {one.seq: one.envelope.to_bytes().hex() for one in ledger.read_all(range(WRITERS * EACH))}
            assert there == acknowledged, "lost or doubled"
            said[name] = {"entries_per_s, start of processes included": round(WRITERS * EACH / spent, 1), "lost": 0}
    return said


@contextmanager
def databases(folder: Path) -> Iterator[dict[str, str]]:
    """One of each kind."""
    with postgres_server() as postgres:
        yield {"SQLite": f"sqlite:///{folder / 'writers.sqlite'}", "PostgreSQL": postgres}


def full_disk(folder: Path) -> dict[str, object]:
    """A small file system of its own where that can be mounted; else this is said."""
    place = folder / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        return {"skipped": f"cannot mount a small file system: {mounted.stderr.strip()}"}
    try:
        key, kept, said = key_of("alpha"), 0, ""
        url = f"sqlite:///{place / 'ledger.sqlite'}"
        with Ledger(url) as ledger:
            try:
                while True:
                    ledger.append(sealed(decision("x" * 3000 + str(kept)), key))
                    kept += 1
            except BadLedger as error:
                said = str(error)
        with Ledger(url) as ledger:
            assert recompute(ledger).size == kept == ledger.head().size, "an acknowledged entry was lost"
        return {"acknowledged before the disk was full": kept, "lost": 0, "said": said.split(": ", 1)[1]}
    finally:
        subprocess.run(["umount", str(place)], check=False)


if __name__ == "__main__":
    main()
