"""What the ledger knows of how sittings of an executor differ: repeated results of one contract at one place."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from lynxbench.compare.effects import THROUGHPUT, leading_figure, percentile_of
from lynxbench.compare.pair import BetweenSittings
from lynxbench.compare.sittings import group_by_sitting, in_one_sitting
from lynxbench.errors import BadLedger, LynxbenchError
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.ledger.queries import Listed, Wanted, find_results, list_results
from lynxbench.ledger.result_standings import disputed
from lynxbench.model.contract import Contract
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.record.recalling import sealed_document
from lynxbench.stats.sessions import LevelVariance, learn_variance

NEWEST = 400
"""Results of a contract that are looked at: more than a year of nights."""
MOST_DOCUMENTS = 60
"""Documents that are opened for a latency: the index has throughputs alone."""

Configuration = tuple[str, str | None]
"""A configuration, and the weights it ran."""


def known_sittings(a: Result, b: Result, ledger: str | None, environment: Mapping[str, str]) -> BetweenSittings | None:
    """For two results that a person named; without a ledger nothing is known of other sittings."""
    if not of_two_sittings(a, b):
        return None
    try:
        with opened(ledger, environment) as open_:
            return between_sittings(a, b, open_, Keyring(environment=environment).trust)
    except BadLedger:
        return BetweenSittings()


def of_two_sittings(a: Result, b: Result) -> bool:
    """Whether one machine measured them at two times; two machines are two executors, and compared as such."""
    machines = [(result.instance_id, *_devices(result)) for result in (a, b)]
    return machines[0] == machines[1] and not in_one_sitting(a.started_at, b.started_at)


def _devices(result: Result) -> list[JsonValue]:
    """What a machine computes with: another device in the same case is another machine, whatever its name."""
    return [result.executor.get(Layer.ACCELERATOR, name) for name in ("cpu_model", "gpu_name")]


def between_sittings(a: Result, b: Result, ledger: OpenLedger, trust: TrustList) -> BetweenSittings | None:
    """What repeated results of the two executors differ by at this place; the two themselves teach nothing."""
    if not of_two_sittings(a, b):
        return None
    groups: dict[tuple[str, Configuration], list[Listed]] = {}
    for contract_id in dict.fromkeys((a.contract_id, b.contract_id)):
        standings = disputed(ledger.log, contract_id, trust)
        left_out = {name for name, standing in standings.items() if standing.retracted or standing.refuted}
        left_out |= {a.result_id, b.result_id}
        for listed in list_results(ledger.log, Wanted(contract=contract_id, limit=NEWEST), readable=True):
            here = listed.instance_id == a.instance_id and listed.executor_id in (a.executor_id, b.executor_id)
            if here and listed.result_id not in left_out and listed.validity == ValidityVerdict.VALID.value:
                key = contract_id, (listed.executor_id, listed.weights)
                groups.setdefault(key, []).append(listed)
    learned: dict[tuple[Precision, str], LevelVariance] = {}
    for part in a.per_precision:
        learned[part.precision, THROUGHPUT] = learn_variance(
            [_throughputs(results, part.precision) for results in groups.values()]
        )
        if leading_figure(a.contract) != THROUGHPUT:
            figure = leading_figure(a.contract)
            latencies = [_latencies(ledger, results, part.precision, a.contract) for results in groups.values()]
            learned[part.precision, figure] = learn_variance(latencies)
    return BetweenSittings(learned)


def _throughputs(results: Sequence[Listed], precision: Precision) -> list[tuple[float, ...]]:
    usable = [
        (listed.started_at, figure.run_means)
        for listed in results
        for figure in listed.figures
        if figure.precision == precision.value and _counts(figure.validity, figure.steady, figure.run_means)
    ]
    return group_by_sitting(usable)


def _counts(validity: str, steady: str | None, run_means: Sequence[float]) -> bool:
    is_steady = steady in (None, SteadyVerdict.STEADY.value)
    return validity == ValidityVerdict.VALID.value and is_steady and bool(run_means) and min(run_means) > 0


def _latencies(
    ledger: OpenLedger, results: Sequence[Listed], precision: Precision, contract: Contract
) -> list[tuple[float, ...]]:
    """One percentile a sitting: those of its processes are in the samples, which are not opened for this."""
    newest = sorted(results, key=lambda listed: listed.started_at)[-MOST_DOCUMENTS:]
    recorded = find_results(ledger.log, (listed.result_id for listed in newest))
    figures = []
    for listed in newest:
        try:
            result = sealed_document(ledger, recorded[listed.result_id])
        except (KeyError, LynxbenchError):
            continue
        value = percentile_of(result, precision, contract)
        if value is not None:
            figures.append((listed.started_at, (value,)))
    return [(values[0],) for values in group_by_sitting(figures)]
