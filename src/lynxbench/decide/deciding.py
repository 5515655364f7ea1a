"""Results from files or the ledger to the pure decisions, and what they need beside them: catalogue, prices, logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from lynxbench.decide.catalogue import CATALOGUE, accelerator_name, parse_catalogue, recognise, unshown_device
from lynxbench.decide.cost import PricedOption
from lynxbench.decide.decision_gate import AnyDecision, hold_back
from lynxbench.decide.demand import declare_demand, forecast_demand
from lynxbench.decide.offers import PLAN, merged_terms, parse_offers, terms_of_executor
from lynxbench.decide.possible_figures import impossible_figure
from lynxbench.decide.purchase import PurchaseProposal, decide_purchase
from lynxbench.decide.tenure import Terms
from lynxbench.decide.usable_figures import measured_precision, newest, one_contract
from lynxbench.decide.whatif import estimate_whatif
from lynxbench.errors import BadInput, BadLedger, LynxbenchError, Refused
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import NO_LEDGER, OpenLedger, opened
from lynxbench.ledger.queries import Wanted, find_results, list_results
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison
from lynxbench.model.decisions import DecisionDocument, Device, PurchaseDecision, WhatIf
from lynxbench.model.fields import real_day
from lynxbench.model.layers import Layer
from lynxbench.model.planning import DemandForecast
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import parse_quantity, parse_unit, words_of
from lynxbench.model.result import Result
from lynxbench.model.standing import Standing
from lynxbench.reading import read_text
from lynxbench.record.comparing_results import compare_sides, side_of
from lynxbench.record.known_sittings import between_sittings
from lynxbench.record.recalling import recalled, result_document
from lynxbench.workload.request_log import parse_columns, read_arrivals

MOST_RESULTS = 200
"""Newest results of a ledger that a decision looks at."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Results that a decision may rest on, oldest first, and what others say of them."""

    results: tuple[Result, ...]
    standings: Mapping[str, Standing] = field(default_factory=dict)

    def doubts(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Contests of the results that a decision cites."""
        doubts = []
        for name in ids:
            standing = self.standings.get(name)
            if standing is None:
                continue
            doubts += [f"{short(name)} is contested by {remark.by}: {remark.text}" for remark in standing.contested]
        return tuple(doubts)

    def judge(self, decision: AnyDecision) -> AnyDecision:
        """A decision with what others doubt, and without its strongest word where its evidence falls short."""
        doubted = decision.model_copy(update={"cautions": (*decision.cautions, *self.doubts(decision.cites))})
        return hold_back(doubted, self.results, self.standings)


def gather(
    names: Sequence[str],
    folders: Sequence[Path],
    ledger: str | None,
    environment: Mapping[str, str],
    contract: str | None = None,
) -> Gathered:
    """Results by name, from folders, or the ledger's newest where neither is given; retracted ones are left out."""
    results: dict[str, Result] = {}
    known: dict[str, Standing] = {}
    named: list[str] = []
    for name in names:
        with recalled(name, ledger, environment) as recall:
            results[recall.result.result_id] = recall.result
            named.append(recall.result.result_id)
            if recall.standing is not None:
                known[recall.result.result_id] = recall.standing
    for folder in folders:
        results |= {result.result_id: result for result in read_folder(folder)}
    if not names and not folders:
        results, known = _from_ledger(ledger, environment, contract)
    elif folders:
        known |= _standings(tuple(results), ledger, environment)
    retracted = {name for name, standing in known.items() if standing.retracted}
    for gone in named:
        if gone in retracted:
            raise Refused(f"result {short(gone)} was retracted: {known[gone].retracted[-1].text}; name another one")
    impossible = {name: words for name, result in results.items() if (words := impossible_figure(result))}
    for name in named if named or not folders else results:
        if name in impossible:
            wrong = f"states what nothing measures ({impossible[name]})"
            raise Refused(
                f"result {short(name)} {wrong}: no decision rests on it; lynxbench verify it, or name another"
            )
    valid = [result for name, result in results.items() if name not in retracted and name not in impossible]
    if results and not valid:
        name = next(iter(results))
        why = f"states what nothing measures ({impossible[name]})" if name in impossible else "was retracted"
        more = f", as {len(results) - 1} more are" if len(results) > 1 else ""
        raise Refused(f"no result to decide from: {short(name)} is left out{more}: it {why}; measure again")
    return Gathered(tuple(sorted(valid, key=lambda result: result.started_at)), known)


def joined(first: Gathered, second: Gathered) -> Gathered:
    """What was gathered in two steps."""
    return Gathered((*first.results, *second.results), {**first.standings, **second.standings})


def read_folder(folder: Path) -> list[Result]:
    """Every result document in or below a folder."""
    if folder.is_file():
        return [read_result(folder)]
    if not folder.is_dir():
        raise BadInput(f"--from {folder}: no such folder; name one with results of lynxbench run")
    files = sorted({*folder.rglob(RESULT_FILE), *folder.glob("*.result.json")})
    if not files:
        raise BadInput(
            f"--from {folder}: no {RESULT_FILE} in it or below it; name a folder with results of lynxbench run"
        )
    return [read_result(file) for file in files]


def read_catalogue(path: Path | None) -> dict[str, Device]:
    """The bundled accelerators, and those of a file of the user's own, which win."""
    own = {} if path is None else parse_catalogue(read_text(path, CATALOGUE.noun), str(path))
    return {**_bundled(), **own}


@cache
def _bundled() -> dict[str, Device]:
    text = (resources.files("lynxbench.decide") / "data" / "accelerators.yaml").read_text(encoding="utf-8")
    return parse_catalogue(text, "accelerators.yaml")


def ask_purchase(
    gathered: Gathered,
    catalogue: Mapping[str, Device],
    *,
    proposed: str,
    contract: str | None = None,
    tests: Sequence[str] = (),
    remeasured_by: str | None = None,
    due: str | None = None,
    host: float = 1.0,
) -> tuple[PurchaseDecision, WhatIf | None]:
    """The five questions over what was gathered; results on the proposed device count as its test instance."""
    _check_due(remeasured_by, due)
    if not proposed.strip():
        raise BadInput("--proposed is empty; name the accelerator, as `lynxbench decide devices` lists them")
    results = one_contract(gathered.results, contract)
    device = catalogue.get(proposed.lower())
    for result in results:
        if result.result_id in tests:
            check_test_instance(result, catalogue, proposed)
    tested = [
        result
        for result in results
        if result.result_id in tests or (device is not None and recognise(catalogue, result.executor) == device)
    ]
    today = [result for result in results if result not in tested]
    whatif, why = _whatif_of(today, catalogue, proposed, host, newest(tested))
    decision = decide_purchase(
        PurchaseProposal(
            device=proposed.lower(),
            today=today,
            tested=tested,
            whatif=whatif,
            why_no_whatif=why,
            unshown=next(filter(None, (unshown_device(catalogue, one.executor, proposed) for one in tested)), ""),
            remeasured_by=remeasured_by,
            due=due,
            contract=results[-1].contract.name if results else contract or "",
        )
    )
    return gathered.judge(decision), whatif


def check_test_instance(tested: Result, catalogue: Mapping[str, Device], proposed: str) -> None:
    """BadInput where the driver's name says that it ran on another device than the proposed one.

    A known device is no instance of one that the catalogue does not have: nothing says that the two are the same.
    """
    device, wanted = recognise(catalogue, tested.executor), catalogue.get(proposed.lower())
    if device is not None and wanted is None:
        ran = f"{short(tested.result_id)} ran on {device.name}, and {proposed!r} is not in the catalogue"
        step = "name it as `lynxbench decide devices` does, or add it with --catalogue FILE"
        raise BadInput(f"--test: {ran}, so nothing says that this is one; {step}")
    if device is not None and wanted is not None and recognise({wanted.name: wanted}, tested.executor) is None:
        ran = f"{short(tested.result_id)} ran on {device.name}"
        raise BadInput(f"--test: {ran}, not on {proposed}: name a result that was measured on a {proposed}")
    unshown = unshown_device(catalogue, tested.executor, proposed)
    if unshown and wanted is not None and accelerator_name(tested.executor) is not None:
        alias = "if it is one, add that name to `reported_as` with --catalogue FILE"
        raise BadInput(f"--test: nothing says that {short(tested.result_id)} ran on {proposed}: {unshown}; {alias}")


def check_beside(baseline: Result, tested: Result, catalogue: Mapping[str, Device], hardware: str | None) -> None:
    """The same of a result beside today's; Refused where it answers another question."""
    if hardware is None:
        raise BadInput("--test is a result on the proposed hardware: name that with --hardware")
    if tested.result_id == baseline.result_id:
        raise BadInput(f"--test: {short(tested.result_id)} is today's result itself; name one on a {hardware}")
    if tested.contract_id != baseline.contract_id:
        other = f"contract {tested.contract.name} ({short(tested.contract_id)}), not of {short(baseline.contract_id)}"
        raise Refused(f"--test: {short(tested.result_id)} is of {other}: another question")
    check_test_instance(tested, catalogue, hardware)


def _check_due(remeasured_by: str | None, due: str | None) -> None:
    if remeasured_by is not None and not remeasured_by.strip():
        raise BadInput("--remeasured-by is empty; name the team that measures again")
    if due is None:
        return
    try:
        real_day(due)
    except ValueError as problem:
        raise BadInput(f"--due: {problem}") from None
    if remeasured_by is None:
        raise BadInput("--due says by when a team measures again: name the team with --remeasured-by")


def under_its_contract(decision: DecisionDocument, results: Sequence[Result]) -> list[Result]:
    """Results that a decision cites under its own contract: today's first, a test instance last."""
    cited = [result for result in results if result.result_id in decision.cites]
    return [result for result in cited if result.contract_id == decision.contract_id]


def compare_cited(
    results: Sequence[Result],
    standing: Mapping[str, Standing],
    ledger: OpenLedger | None = None,
    trust: TrustList | None = None,
) -> Comparison | None:
    """The last result against the first, where there are two; the gate decides whether a ratio is given."""
    if len(results) < 2:
        return None
    first, last = results[0], results[-1]
    a, b = (side_of(result, standing=standing.get(result.result_id)) for result in (first, last))
    if ledger is None or trust is None:
        return compare_sides(a, b)
    return compare_sides(a, b, between=between_sittings(first, last, ledger, trust))


def incomparable(results: Sequence[tuple[str, Result]]) -> dict[str, str]:
    """Candidates that break a rule against the first one, with the rule; prices and machines may differ."""
    if len(results) < 2:
        return {}
    _, first = results[0]
    reasons = {}
    for name, candidate in results[1:]:
        comparison = compare_sides(side_of(first), side_of(candidate))
        if comparison.refused:
            broken = next(rule for rule in comparison.rules if rule.outcome == "breaks")
            reasons[name] = f"{broken.rule} {broken.name}: {broken.said}"
    return reasons


def demand_of(
    declared_per_s: float | None,
    mean_per_s: float | None,
    log: Path | None,
    *,
    columns: Sequence[str] = (),
    window_s: float,
    percentile: float | None,
    growth: float,
    result: Result,
) -> DemandForecast:
    """Demand as it is declared, logged, or stated in the executor's demand layer."""
    if declared_per_s is not None and log is not None:
        raise BadInput("--demand and --demand-log exclude each other: declared, or read from a log")
    if log is None and percentile is not None:
        raise BadInput("--percentile is of the windows of a log: give --demand-log FILE, or leave it out")
    if log is not None and mean_per_s is not None:
        raise BadInput("--mean-demand and --demand-log exclude each other: a log has a mean of its own")
    if log is not None:
        arrivals, failed = read_arrivals(log, parse_columns(columns))
        name = f"{log.name} ({failed} of its {len(arrivals)} requests failed)" if failed else log.name
        return forecast_demand(arrivals, name, window_s=window_s, percentile=percentile, growth=growth)
    if declared_per_s is not None:
        return declare_demand(declared_per_s, growth, mean_per_s)
    stated = result.executor.get(Layer.DEMAND, "peak_requests_per_s")
    if isinstance(stated, int | float) and not isinstance(stated, bool) and stated > 0:
        return declare_demand(float(stated), growth, mean_per_s)
    raise BadInput('no demand: give --demand "120 requests/s", or --demand-log FILE')


def claimed_requests(claimed: str | None, result: Result, precision: Precision | None) -> float | None:
    """A vendor's figure in requests a second; tokens become requests only through the measured output length."""
    if claimed is None:
        return None
    quantity = parse_quantity(claimed, None, "--claimed")
    requests, tokens = (parse_unit(unit)[1] for unit in ("requests/s", "tokens/s"))
    if quantity.dimension == requests:
        return quantity.value
    if quantity.dimension != tokens:
        raise BadInput(f"--claimed: {claimed!r} is {words_of(quantity.dimension)}; give requests/s or tokens/s")
    load = measured_precision(result, precision).load
    length = None if load is None else load.tokens.output_mean
    if not length:
        raise Refused("--claimed in tokens/s: the result does not say how many output tokens a request had")
    return quantity.value / length


def candidates_of(
    plan: Path | None,
    gathered: Gathered | None,
    terms: Terms,
    precision: Precision | None,
    ledger: str | None,
    environment: Mapping[str, str],
) -> tuple[list[PricedOption], Gathered]:
    """Candidates of a plan file, or the results given with the prices given; declared prices fill what is left open."""
    if plan is None:
        assert gathered is not None
        options = [
            PricedOption(
                f"{result.contract.name} {short(result.result_id)}",
                result,
                merged_terms(terms, terms_of_executor(result.executor)),
                precision,
            )
            for result in gathered.results
        ]
        return options, gathered
    offers = parse_offers(read_text(plan, PLAN.noun), str(plan))
    results: dict[str, Result] = {}
    standings_: dict[str, Standing] = {}
    options = []
    for offer in offers:
        beside = plan.parent / offer.result
        offered = gather([str(beside) if beside.exists() else offer.result], [], ledger, environment)
        result = offered.results[0]
        results[result.result_id] = result
        standings_ |= offered.standings
        declared = terms_of_executor(result.executor)
        options.append(
            PricedOption(offer.name, result, merged_terms(offer.terms, merged_terms(terms, declared)), offer.precision)
        )
    return options, Gathered(tuple(results.values()), standings_)


def _whatif_of(
    today: Sequence[Result], catalogue: Mapping[str, Device], proposed: str, host: float, tested: Result | None
) -> tuple[WhatIf | None, str]:
    for result in reversed(today):
        try:
            whatif = estimate_whatif(result, catalogue, hardware=proposed, with_fix=True, host=host, tested=tested)
            return whatif, ""
        except LynxbenchError as error:
            why = str(error)
    return None, why if today else "no result on today's hardware"


def _from_ledger(
    ledger: str | None, environment: Mapping[str, str], contract: str | None
) -> tuple[dict[str, Result], dict[str, Standing]]:
    with opened(ledger, environment) as open_:
        listed = list_results(open_.log, Wanted(limit=MOST_RESULTS))
        chosen = [
            summary
            for summary in listed
            if contract in (None, summary.contract_name) or summary.contract_id.startswith(str(contract))
        ]
        ids = [summary.result_id for summary in chosen]
        known = standings(open_.log, ids, Keyring(environment=environment).trust) if ids else {}
        return {name: result_document(open_, name) for name in ids}, dict(known)


def _standings(ids: Sequence[str], ledger: str | None, environment: Mapping[str, str]) -> dict[str, Standing]:
    if ledger == NO_LEDGER:
        return {}
    try:
        with opened(ledger, environment) as open_:
            mine = list(find_results(open_.log, ids))
            return dict(standings(open_.log, mine, Keyring(environment=environment).trust)) if mine else {}
    except BadLedger:
        return {}
