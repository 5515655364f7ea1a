"""The server's own profiler in a pass of its own: after the measured load, never during it.

A short load of the contract's own kind with the profiler on; the traces that the server wrote are kept beside the run
with every request of the pass, and judged from there, by the run and by whoever verifies it.

    profile/pass.json     when it was, and why it came to nothing where it did
    profile/record.npz    its requests                     profile/NAME.json.gz   the server's traces
"""

from __future__ import annotations

import gzip
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from urllib.parse import urlsplit

import numpy as np

from lynxbench.attribute.profiled_server import attribute_profile
from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.exchanging import exchange_of
from lynxbench.engines.served import api_key_headers
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.sample_file import hash_file
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.server import CapturedServer
from lynxbench.https import request
from lynxbench.load.driver import run_probe
from lynxbench.load.load_record import LoadRecord, RequestEnd, read_record, write_record
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.send_schedule import load_of, poisson
from lynxbench.model.contract import Contract
from lynxbench.model.dialect import Dialect
from lynxbench.model.document import Document
from lynxbench.model.evidence_gate import KERNELS_LINE, OPEN_REQUESTS
from lynxbench.model.samples import Float64
from lynxbench.model.server_profile import ProfilePass, ProfileTrace, ServerKernels
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.workload import ReplayArrival, SaturatingArrival
from lynxbench.run.asked_facts import without_texts
from lynxbench.run.client_job import RECORD_FILE, plan_of, read_trace, seed_of
from lynxbench.run.profile_folder import HOW, traces_folder

FOLDER = "profile"
PASS_FILE = "pass.json"
PROFILED_RUN = 2**19
"""Its prompts are marked as those of a run that no measured one has the number of."""
ASK_TIMEOUT_S = 60.0
SETTLED_S = 1.0
"""A file that has not grown for so long is written."""
MOST_BYTES = 256 << 20
"""Of all traces together, packed: evidence is kept for years, and passed on."""
ENDINGS = (".json", ".json.gz")


class PassRecord(Document):
    """How the pass went."""

    missing: str = ""
    unix_offset_ns: int = 0
    """What the client's clock lacks to the time of day."""
    duration_s: float = 0.0
    traces: tuple[ProfileTrace, ...] = ()


class _NoProfile(LynxbenchError):
    """Why there is none; the run goes on without it."""


# --- the pass --------------------------------------------------------------------------------------------------------


def profile_server(
    run: RunFolder, asked: Contract, server: CapturedServer, calibration: TokenCalibration | None, rate: float | None
) -> None:
    """Have the server profile a short load, once; a run that is resumed keeps what came of it.

    `asked` is the contract with the address at which the server is really asked, `rate` what a search found.
    """
    engine = asked.engine
    if not isinstance(engine, OpenAiEngine) or engine.profile is None or (run.path / FOLDER / PASS_FILE).exists():
        return
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    try:
        kept = _pass(folder, asked, engine, engine.profile, server, calibration, rate)
    except LynxbenchError as why:  # the measured load is there: nothing that goes wrong here may cost it
        kept = PassRecord(missing=str(why))
    except OSError as error:
        kept = PassRecord(missing=f"the server's traces cannot be kept: {error.strerror or error}")
    write_text(folder / PASS_FILE, kept.model_dump_json(indent=1))


def _pass(
    folder: Path,
    contract: Contract,
    engine: OpenAiEngine,
    profile: ProfilePass,
    server: CapturedServer,
    calibration: TokenCalibration | None,
    rate: float | None,
) -> PassRecord:
    written = traces_folder(server, engine.dialect)
    if isinstance(written, str):
        raise _NoProfile(written)
    before = _files_in(written)
    trace = read_trace(contract)
    exchange = exchange_of(contract, run=PROFILED_RUN, trace=trace, calibration=calibration)
    arrivals = None if trace is None else trace.arrival_s
    load = _load(contract, profile.duration_s, rate, arrivals)
    plan = plan_of(contract, exchange, load, profile.duration_s, 0)
    offset_ns = time.time_ns() - perf_counter_ns()
    _switch(engine, "start_profile", ASK_TIMEOUT_S)
    try:
        record = run_probe(plan)
        write_record(without_texts(record, contract), folder / RECORD_FILE)
    finally:
        until = time.monotonic() + profile.wait_s
        _switch(engine, "stop_profile", profile.wait_s)
    new = await_traces(written, before, until)
    if not new:
        raise _NoProfile(f"the server wrote no trace into {written.name} within {profile.wait_s:g} s")
    return PassRecord(
        unix_offset_ns=offset_ns,
        duration_s=(record.end_ns - record.start_ns) / 1e9,
        traces=_keep(new, folder),
    )


def _load(contract: Contract, duration_s: float, rate: float | None, arrivals: Float64 | None) -> ClosedLoop | OpenLoop:
    """The contract's own load for so long; of a search, the rate that it found, else what it began with."""
    arrival = contract.workload.arrival
    if isinstance(arrival, SaturatingArrival):
        if rate is None:
            return ClosedLoop(arrival.concurrency)
        return OpenLoop(poisson(rate, duration_s, seed=seed_of(contract, PROFILED_RUN)))
    load = load_of(
        arrival,
        duration_s=duration_s,
        shortest_s=min(duration_s, contract.protocol.min_duration_s),
        seed=seed_of(contract, PROFILED_RUN),
        trace_s=arrivals,
    )
    if isinstance(load, OpenLoop) and isinstance(arrival, ReplayArrival):
        return OpenLoop(load.offsets_ns[load.offsets_ns < int(duration_s * 1e9)])
    return load


def _switch(engine: OpenAiEngine, what: str, timeout_s: float) -> None:
    """Start or stop the profiler; where that cannot be, the reason is the pass's."""
    parts = urlsplit(engine.url)
    root = parts.path.rstrip("/").removesuffix("/v1")
    sglang = engine.dialect is Dialect.SGLANG
    headers = {**api_key_headers(engine), **({"Content-Type": "application/json"} if sglang else {})}
    try:
        answer = request(
            "POST",
            f"{parts.scheme}://{parts.netloc}{root}/{what}",
            b"{}" if sglang and what == "start_profile" else b"",
            headers,
            timeout_s=timeout_s,
            ca_file=engine.ca_file,
            verify=engine.verify_tls,
        )
    except TimeoutError:
        hint = "; servers answer once their traces are written: say a longer engine.profile.wait"
        why = f"POST /{what}: no answer within {timeout_s:g} s{hint if what == 'stop_profile' else ''}"
        raise _NoProfile(why) from None
    except OSError as error:
        raise _NoProfile(f"POST /{what}: {error.strerror or type(error).__name__}") from None
    if answer.status in (404, 405):
        raise _NoProfile(f"the server has no /{what}: {HOW[engine.dialect]}")
    if not answer.is_good:
        words = " ".join(answer.body[:200].decode("utf-8", "replace").split())
        raise _NoProfile(f"POST /{what}: status {answer.status} {words}".strip())


def _files_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """Traces and what tells whether they were written anew."""
    found = {}
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.name.endswith(ENDINGS) and path.is_file() and not path.is_symlink():
            facts = path.stat()
            found[path] = (facts.st_size, facts.st_mtime_ns)
    return found


def await_traces(
    folder: Path,
    before: dict[Path, tuple[int, int]],
    until: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Path]:
    """The traces that are new, once they no longer grow; those that are there where the time is over."""
    last: dict[Path, tuple[int, int]] = {}
    while True:
        new = {path: facts for path, facts in _files_in(folder).items() if before.get(path) != facts and facts[0]}
        if new and new == last:
            return sorted(new)
        if clock() >= until:
            return sorted(new)
        last = new
        sleep(SETTLED_S)


def _keep(traces: list[Path], folder: Path) -> tuple[ProfileTrace, ...]:
    """Copies beside the run, packed."""
    kept, total = [], 0
    for number, path in enumerate(traces):
        target = folder / f"trace-{number}.json.gz"
        with path.open("rb") as source:
            if path.name.endswith(".gz"):
                with target.open("wb") as out:
                    shutil.copyfileobj(source, out)
            else:
                with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
                    shutil.copyfileobj(source, out)
        total += target.stat().st_size
        if total > MOST_BYTES:
            for each in folder.glob("trace-*.json.gz"):
                each.unlink()
            raise _NoProfile(
                f"the server wrote more than {MOST_BYTES >> 20} MiB of traces; say a shorter engine.profile.duration, "
                "or record no stacks (vLLM: torch_profiler_with_stack)"
            )
        kept.append(ProfileTrace(file=f"{FOLDER}/{target.name}", sha256=hash_file(target), bytes=target.stat().st_size))
    return tuple(kept)


# --- what it comes to ------------------------------------------------------------------------------------------------


def conclude_profile(run: RunFolder, rules: int) -> ServerKernels | None:
    """What the kept traces say; None where nobody asked for them."""
    contract = run.registration.contract
    folder = run.path / FOLDER
    if getattr(contract.engine, "profile", None) is None:
        return None
    if not (folder / PASS_FILE).exists():
        return ServerKernels(missing="the pass was not made")
    kept = read_document(folder / PASS_FILE, PassRecord, "the pass left no record")
    record = read_record(folder / RECORD_FILE) if (folder / RECORD_FILE).exists() else None
    about = ServerKernels(
        missing=kept.missing,
        duration_s=round(kept.duration_s, 3),
        offered=0 if record is None else len(record),
        ok=0 if record is None else int(np.count_nonzero(record.kind == RequestEnd.OK)),
        traces=kept.traces,
    )
    if kept.missing or record is None:
        return about
    found = attribute_profile(
        [run.path / trace.file for trace in kept.traces],
        request_spans(record, kept.unix_offset_ns),
        contract.workload.precisions[0],
        owner=contract.owner,
        rules=rules,
    )
    if isinstance(found, str):
        return about.model_copy(update={"missing": found})
    return about.model_copy(
        update={
            "missing": found.missing,
            "judged": f"{FOLDER}/{found.path.name}",
            "device": found.device,
            "join": found.join,
            "attribution": found.attribution,
        }
    )


def request_spans(record: LoadRecord, unix_offset_ns: int) -> list[tuple[int, int]]:
    """From sending to the last byte of every request that was answered, by the time of day."""
    ok = record.kind == RequestEnd.OK
    spans = np.column_stack((record.sent_ns[ok], record.last_ns[ok])) + unix_offset_ns
    return [(int(start), int(end)) for start, end in spans]


def kernel_line(kernels: ServerKernels) -> str:
    """For the evidence of a served verdict."""
    name = KERNELS_LINE
    attribution, join = kernels.attribution, kernels.join
    if attribution is None or join is None:
        return f"{name}: not seen: {kernels.missing}"
    whose = "" if attribution.layer is None else f"; layer {attribution.layer.value} → {attribution.owner}"
    pass_words = f"its own profiler in a pass of {kernels.duration_s:.1f} s after the load, {join.requests} requests"
    return f"{name} ({pass_words}): {join.busy:.0%}{OPEN_REQUESTS}; {attribution.sentence}{whose}"
