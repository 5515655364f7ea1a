"""Results between a machine's ledger and a server: pushed as signed bundles, pulled and verified here."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lynxbench.errors import BadInput
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.bundle import Imported, export_bundle, import_bundle
from lynxbench.ledger.location import opened
from lynxbench.ledger.queries import Wanted, list_results
from lynxbench.record.recalling_analyses import results_named
from lynxbench.record.remote import Remote

BUNDLE_FILE = "bundle.lynx"


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a push sent, and what the server says came of it."""

    results: tuple[str, ...]
    size_bytes: int
    entries: int
    new: int

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {**asdict(self), "results": list(self.results)}


def push_results(
    names: Sequence[str],
    ledger: str | None,
    remote: Remote,
    environment: Mapping[str, str],
    *,
    run: str | None = None,
    everything: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Pushed:
    """Send results with all that was said about them; sending them again adds only what is new."""
    keyring, now = Keyring(environment=environment), datetime.now(UTC)
    with opened(ledger, environment) as open_, tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
        if everything:
            ids = [listed.result_id for listed in list_results(open_.log, Wanted(limit=None))]
        else:
            ids = [result_id for name in names for result_id in results_named(open_, name)]
        if not ids:
            return Pushed((), 0, 0, 0)
        path = Path(folder) / BUNDLE_FILE
        export_bundle(open_, ids, path, keyring.signing_key(now).key, keyring.trust, now)
        outcome = remote.push(path, run, progress)
        size = path.stat().st_size
    return Pushed(tuple(dict.fromkeys(ids)), size, int(outcome.get("entries", 0)), int(outcome.get("new", 0)))


def pull_result(name: str, ledger: str | None, remote: Remote, environment: Mapping[str, str]) -> Imported:
    """Fetch a result, or an analysis with all its results, and take it in where one's own trust list says so."""
    data = _fetched(name, remote)
    with opened(ledger, environment, create=True) as open_, tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
        path = Path(folder) / BUNDLE_FILE
        path.write_bytes(data)
        return import_bundle(open_, path, Keyring(environment=environment).trust)


def _fetched(name: str, remote: Remote) -> bytes:
    try:
        return remote.fetch(f"/api/v1/results/{name}/bundle")
    except BadInput as error:
        try:
            return remote.fetch(f"/api/v1/analyses/{name}/bundle")
        except BadInput:
            raise error from None
