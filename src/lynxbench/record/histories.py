"""A contract's past from folders and from the ledger: points, documents, changes."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from lynxbench.compare.levels import FieldsBetween, point_of, read_history
from lynxbench.compare.machine_series import MOST_MACHINES, tell_machines_apart
from lynxbench.compare.stack_signals import Record
from lynxbench.compare.suspects import changes_between
from lynxbench.contract.diff import compare_contracts
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadFile, BadInput, BadLedger, BadResult, NotFound
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import NO_LEDGER, OpenLedger, opened
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import LAST, find_id, is_name, looks_like_id
from lynxbench.ledger.queries import (
    Listed,
    Wanted,
    agreed_contract,
    entries_of_contract,
    find_results,
    list_results,
    result_ids,
)
from lynxbench.ledger.queries import history as ledger_history
from lynxbench.ledger.result_standings import disputed, standings
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, EntryKind
from lynxbench.model.executor import FieldChange
from lynxbench.model.history import History, HistoryPoint
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.model.standing import agreement_shown
from lynxbench.record.comparing_results import contract_differences
from lynxbench.record.contract_machines import MachineNames
from lynxbench.record.recalling import sealed_document
from lynxbench.run.run_outcome import TELEMETRY_FILE

ResultPair = tuple[str, str]
ChangedFields = tuple[FieldChange, ...]
MOST_DOCUMENTS = 200
"""Newest documents that the signs are read from."""
CPU_BUSY = "cpu_busy"
GPU_BUSY = re.compile(r"gpu[0-9]+_utilisation")
_ON_MACHINE = re.compile(r"(?P<name>.+)@(?P<machine>[0-9A-Za-z]{1,64})")


@dataclass(frozen=True, slots=True)
class ContractResults:
    """Results of one contract, from everywhere they were looked for."""

    contract: Contract
    contract_id: str
    results: Mapping[str, Result]
    """From folders, by id."""
    folders: Mapping[str, Path]
    listed: tuple[Listed, ...]
    """From the ledger, oldest first."""
    retracted: Mapping[str, str]
    """By id: who took a result back, and why."""
    problems: tuple[str, ...]


class Past:
    """Where results of a contract are looked for: folders, and a ledger where one is there."""

    def __init__(self, ledger: OpenLedger | None, trust: TrustList, folders: Sequence[Path] = ()) -> None:
        self.ledger, self._trust, self._folders = ledger, trust, folders

    def find(self, named: str, newest: int | None = None) -> ContractResults:
        """All results of the contract that a person named by file, bundled name, id or its beginning.

        `newest` leaves out of the ledger's results all but so many.
        """
        loaded, folders, problems = _read_folders(self._folders)
        try:
            contract = self._contract(named, loaded.values())
        except BadFile as error:
            if loaded or not problems:
                raise
            raise BadInput(f"no result in the given folders can be read: {problems[0]}") from error
        identifier = contract.contract_id
        chosen = {
            name: result
            for name, result in loaded.items()  # one of the same meaning may have another stack, owner or label
            if result.contract_id == identifier
            or compare_contracts(contract, result.contract).verdict != "incomparable"
        }
        listed: tuple[Listed, ...] = ()
        retracted: dict[str, str] = {}
        if self.ledger is not None:
            listed = self.listed(self.ledger, identifier, newest)
            doubted = disputed(self.ledger.log, identifier, self._trust)
            # Results of folders may be under another contract of the same meaning: the ledger is asked about each.
            elsewhere = [name for name, result in chosen.items() if result.contract_id != identifier]
            doubted |= standings(self.ledger.log, elsewhere, self._trust)
            retracted = {name: standing.words[0] for name, standing in doubted.items() if standing.retracted}
        return ContractResults(contract, identifier, chosen, folders, listed, retracted, tuple(problems))

    def changes(self, contract_id: str | None) -> tuple[tuple[ChangeDeclared, ...], tuple[ChangeMeasured, ...]]:
        """Declared and measured changes of a contract, in the ledger's order."""
        if self.ledger is None or contract_id is None:
            return (), ()
        kinds = (EntryKind.CHANGE, EntryKind.CHANGE_MEASURED)
        bodies = [logged.entry.body for logged in entries_of_contract(self.ledger.log, contract_id, kinds)]
        declared = tuple(body for body in bodies if isinstance(body, ChangeDeclared))
        return declared, tuple(body for body in bodies if isinstance(body, ChangeMeasured))

    def contract(self, named: str) -> Contract:
        """The contract that a person named."""
        return self._contract(named, _read_folders(self._folders)[0].values())

    def _contract(self, named: str, results: Iterable[Result]) -> Contract:
        bare = named.removeprefix("sha256:").lower()
        if looks_like_id(named) and not Path(named).exists():
            near = {r.contract_id: r.contract for r in results if r.contract_id.startswith(bare)}
            if len(near) == 1:
                return next(iter(near.values()))
            if self.ledger is not None:
                agreed = agreed_contract(self.ledger.log, find_id(self.ledger.log, named, "contract"))
                if agreed is not None:
                    return agreed
        try:
            return read_contract(named)
        except BadFile:
            by_name = {r.contract_id: r.contract for r in results if r.contract.name == named}
            if len(by_name) == 1 and not Path(named).exists():
                return next(iter(by_name.values()))
            if len(by_name) > 1 and not Path(named).exists():
                ids = ", ".join(map(short, by_name))
                raise BadInput(f"{named}: {len(by_name)} contracts have this name; name one by its id: {ids}") from None
            recorded = self._recorded_contract(named)
            if recorded is not None:
                return recorded
            raise

    def _recorded_contract(self, named: str) -> Contract | None:
        """The contract of that name, or of `last`, in the ledger; None where there is none."""
        if self.ledger is None or not is_name(named) or Path(named).exists():
            return None
        try:
            return agreed_contract(self.ledger.log, find_id(self.ledger.log, named, "contract"))
        except NotFound:
            return None

    def agreements(self, results: ContractResults, names: Sequence[str]) -> dict[str, str]:
        """By result: whether its contract was agreed before its run, where that contract names teams."""
        contracts = {name: result.contract for name, result in results.results.items()}
        teams = {name: contracts.get(name, results.contract).teams for name in names}
        asked = [name for name in names if teams[name]]
        known = standings(self.ledger.log, asked, self._trust) if self.ledger is not None and asked else {}
        shown = {name: agreement_shown(teams[name], known.get(name)) for name in asked}
        return {name: agreement.words for name, agreement in shown.items() if agreement is not None}

    def documents(self, results: ContractResults, names: Iterable[str]) -> dict[str, Result]:
        """Whole documents by their ids, from folders or the ledger; those that are not at hand are left out."""
        wanted = list(dict.fromkeys(names))
        here = {name: results.results[name] for name in wanted if name in results.results}
        if self.ledger is None:
            return here
        recorded = self.recorded(self.ledger, [name for name in wanted if name not in here])
        read = {name: self.document(self.ledger, logged) for name, logged in recorded.items()}
        return here | {name: document for name, document in read.items() if document is not None}

    def changes_between(self, results: ContractResults, pairs: Sequence[ResultPair]) -> list[ChangedFields | None]:
        """What changed from one result to another, of each pair of ids; None where a document is not at hand."""
        held = self.documents(results, (name for pair in pairs for name in pair))
        return [changes_between(held[a], held[b]) if {a, b} <= held.keys() else None for a, b in pairs]

    def listed(self, ledger: OpenLedger, contract_id: str, newest: int | None) -> tuple[Listed, ...]:
        """The ledger's results of a contract, or so many of the newest, oldest first."""
        if newest == 0:
            return ()
        if newest is None:
            return tuple(ledger_history(ledger.log, contract_id))
        return tuple(list_results(ledger.log, Wanted(contract=contract_id, limit=newest))[::-1])

    def recorded(self, ledger: OpenLedger, names: Sequence[str]) -> dict[str, Logged]:
        """The entries of results by their ids."""
        return find_results(ledger.log, names)

    def document(self, ledger: OpenLedger, recorded: Logged) -> Result | None:
        """The document of an entry; None where the ledger does not hold it."""
        try:
            return sealed_document(ledger, recorded)
        except (BadInput, BadLedger):
            return None


@contextmanager
def opened_past(folders: Sequence[Path], ledger: str | None, environment: Mapping[str, str]) -> Iterator[Past]:
    """The past in folders and in the ledger that is meant; folders alone will do where that one is not there."""
    with ExitStack() as stack:
        open_: OpenLedger | None = None
        try:
            open_ = stack.enter_context(opened(ledger, environment))
        except BadLedger:
            if ledger not in (None, NO_LEDGER) or not folders:
                raise
        yield Past(open_, Keyring(environment=environment).trust, folders)


def history_of(
    past: Past, named: str, precision: Precision | None, newest: int | None = None, machine: str = ""
) -> History:
    """The history of a contract at one precision, its first one if none is chosen; of each machine by itself.

    `NAME@b`, or `machine`, is that of one machine alone.
    """
    named, asked = split_machine(named)
    results = past.find(named, newest)
    chosen = precision or results.contract.workload.precisions[0]
    layers: dict[int, dict[Layer, str]] = {}
    made: dict[str, HistoryPoint | str] = {}
    for listed in results.listed:
        if id(listed.layer_ids) not in layers:  # most results of a contract share their layers, and their list says so
            layers[id(listed.layer_ids)] = {Layer(name): value for name, value in listed.layer_ids.items()}
        made[listed.result_id] = _listed_point(listed, chosen, layers[id(listed.layer_ids)])
    for name, result in results.results.items():
        if isinstance(made.get(name, ""), str):
            made[name] = point_of(result, chosen)
    made = {name: point for name, point in made.items() if name not in results.retracted}
    left_out = dict(sorted(results.retracted.items()))
    left_out |= {name: point for name, point in made.items() if isinstance(point, str)}
    points = [point for point in made.values() if not isinstance(point, str)]
    names = MachineNames(past.ledger, results.listed, results.results, points)
    if machine or asked:
        points = names.of_machine(points, machine or asked)
    agreed = past.agreements(results, [point.result_id for point in points])
    apart = tell_machines_apart(_agreed(point, agreed.get(point.result_id)) for point in points)
    unsaid = sum(len(each.points) for each in apart[MOST_MACHINES:])
    more = (f"{unsaid} results of further machines: {named}@MACHINE shows one",) if unsaid else ()
    read = partial(
        read_history,
        contract_id=results.contract_id,
        contract=results.contract.name,
        precision=chosen,
        owners=results.contract.owners,
        fields_between=_fields_between(past, results),
    )
    told = machine or asked or len({point.instance_id for point in points}) > 1
    series = [read(each.points, machine=names.words(each) if told else "") for each in apart[:MOST_MACHINES]]
    first, *others = series or [read(())]
    left = (*(f"{short(name)}: {why}" for name, why in left_out.items()), *results.problems, *first.left_out, *more)
    return first.model_copy(update={"left_out": left, "machines": tuple(others)})


def split_machine(named: str) -> tuple[str, str]:
    """`quickstart@b` as the contract and the machine; a file is a file, and `last@b` the newest result of that one."""
    match = _ON_MACHINE.fullmatch(named)
    if match is None or Path(named).exists():
        return named, ""
    return named if match["name"] == LAST else match["name"], match["machine"]


def whole_history(past: Past, named: str, history: History) -> tuple[tuple[History, ...], tuple[Result, ...]]:
    """What is laid over a history: those of the other precisions, and the newest documents of all of them."""
    results = past.find(named, newest=0)
    others = [other for other in results.contract.workload.precisions if other is not history.precision]
    found = (history_of(past, named, other).each_machine for other in others)
    # beside the series of a machine stands what that machine did at the other precisions
    histories = tuple(one for each in found for one in each if one.machine == history.machine or len(each) == 1)
    names = (point.result_id for each in (history, *histories) for point in each.points[-MOST_DOCUMENTS:])
    return histories, tuple(past.documents(results, names).values())


def record_of(past: Past, named: str) -> Record:
    """What the five signs are read from."""
    results = past.find(named, newest=0)
    # A result of a folder stands where the ledger has it, however long ago: then all of the ledger's are needed.
    newest = None if results.results else MOST_DOCUMENTS
    known = [] if past.ledger is None else result_ids(past.ledger.log, results.contract_id, newest)
    ids = list(dict.fromkeys([*known, *results.results]))
    documents = past.documents(results, [name for name in ids[-MOST_DOCUMENTS:] if name not in results.retracted])
    declared, measured = past.changes(results.contract_id)
    return Record(
        contract_id=results.contract_id,
        contract=results.contract.name,
        results=tuple(sorted(documents.values(), key=lambda result: (result.started_at, result.result_id))),
        declared=declared,
        measured=measured,
        utilisation=_utilisation(results),
        differences=contract_differences,
    )


def _agreed(point: HistoryPoint, words: str | None) -> HistoryPoint:
    return point if words is None else point.model_copy(update={"agreement": words})


def _fields_between(past: Past, results: ContractResults) -> FieldsBetween:
    def between(pairs: Sequence[tuple[HistoryPoint, HistoryPoint]]) -> list[ChangedFields | None]:
        return past.changes_between(results, [(a.result_id, b.result_id) for a, b in pairs])

    return between


def _listed_point(listed: Listed, precision: Precision, layers: dict[Layer, str]) -> HistoryPoint | str:
    figure = next((figure for figure in listed.figures if figure.precision == precision.value), None)
    if figure is None:
        return f"{precision} was not measured"
    if listed.validity == "void" or figure.validity == "void":
        return "void"
    if figure.throughput is None or not figure.throughput.estimate or figure.throughput.estimate <= 0:
        return "no figure"
    return HistoryPoint.model_construct(  # ten thousand of them, each checked when it was recorded
        result_id=listed.result_id,
        started_at=listed.started_at,
        executor_id=listed.executor_id,
        instance_id=listed.instance_id,
        layer_ids=layers,
        weights=listed.weights,
        run_means=figure.run_means,
        estimate=figure.throughput.estimate,
        low=figure.throughput.low,
        high=figure.throughput.high,
        unit=figure.throughput.unit,
        doubtful=figure.validity == "doubtful" or _wholly_doubtful(listed),
        cause=listed.bottleneck or "",
    )


def _wholly_doubtful(listed: Listed) -> bool:
    """Whether a run is doubtful for what concerns all of it: an entry has no reasons, and no precision has a doubt."""
    return listed.validity == "doubtful" and all(figure.validity == "valid" for figure in listed.figures)


def _read_folders(roots: Sequence[Path]) -> tuple[dict[str, Result], dict[str, Path], list[str]]:
    """Every result below the given folders; one that cannot be read is named, not hidden."""
    results: dict[str, Result] = {}
    folders: dict[str, Path] = {}
    problems: list[str] = []
    for root in roots:
        if not root.exists():
            raise BadInput(f"{root}: no such file or folder; give folders with results")
        files = [root] if root.is_file() else sorted(root.rglob(RESULT_FILE))
        if not files:
            raise BadInput(f"{root}: holds no {RESULT_FILE}; give the folder that lynxbench run wrote to")
        for file in files:
            try:
                result = read_result(file)
            except BadResult as error:
                problems.append(str(error))
                continue
            results[result.result_id] = result
            folders[result.result_id] = file.parent
    return results, folders, problems


def _utilisation(results: ContractResults) -> dict[str, float]:
    """Mean busy share of the GPUs, or of the CPUs where there are none, where telemetry lies beside the result."""
    shares: dict[str, float] = {}
    for result_id, folder in results.folders.items():
        if result_id not in results.results or not (folder / TELEMETRY_FILE).exists():
            continue
        try:
            columns = read_telemetry(folder / TELEMETRY_FILE).columns
        except BadResult:
            continue
        gpus = [values for name, values in columns.items() if GPU_BUSY.fullmatch(name)]
        busy = gpus or [columns[CPU_BUSY]] if CPU_BUSY in columns else gpus
        means = [float(np.nanmean(values)) for values in busy if np.isfinite(values).any()]
        if means and math.isfinite(sum(means)):
            shares[result_id] = sum(means) / len(means)
    return shares
