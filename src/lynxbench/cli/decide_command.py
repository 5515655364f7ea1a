"""`lynxbench decide`: from evidence to a decision that cites it.

The parser reads options from each signature, so those that several questions share stand in each of them.
"""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.options import AS_JSON, LEDGER, LOG_COLUMN, PDF, RESULT
from lynxbench.cli.showing import LIST_WIDTH, terminal_text
from lynxbench.cli.terminal import tell
from lynxbench.decide import deciding
from lynxbench.decide.capacity import CapacityDemand, plan_capacity
from lynxbench.decide.cost import CostQuestion, report_cost
from lynxbench.decide.decision_gate import is_held_back
from lynxbench.decide.offers import terms_from_options
from lynxbench.decide.packing import make_pack, record_decision
from lynxbench.decide.precision_choice import decide_formats, decide_precisions
from lynxbench.decide.usable_figures import one_contract
from lynxbench.decide.whatif import estimate_whatif
from lynxbench.errors import BadInput, BadLedger, ExitCode
from lynxbench.model.attribution import Category
from lynxbench.model.contract import Regime
from lynxbench.model.decisions import DecisionDocument
from lynxbench.model.precision import Precision
from lynxbench.model.quantities import parse_quantity, parse_ratio
from lynxbench.report.documents.decision_document import Decision, compose_decision
from lynxbench.report.documents.devices_document import compose_devices
from lynxbench.stats.fleets import Balancing

app = command_group("From evidence to a decision that cites it.")

FROM = typer.Option([], "--from", help="Folder with results; may be given more than once. Without it, the ledger.")
FOR = typer.Option(None, "--for", help="The contract, by name or id, where there are results of several.")
PRECISION = typer.Option(None, help="Which precision; the first that was measured if left out.")
CATALOGUE = typer.Option(None, "--catalogue", help="A YAML file with accelerators of your own.")
RESULTS = typer.Argument(None, help="Results: paths, ids, their beginnings, names (last, NAME@a).", show_default=False)
RECORD = typer.Option(False, "--record", help="Sign the decision and append it to the ledger.")
HOST = typer.Option(1.0, help="How many times faster the new machine's host is.")
PUE = typer.Option(None, help="Facility power over the machines' power.")


@app.command()
def purchase(
    proposed: str = typer.Option(..., help="The proposed accelerator, by its name in the catalogue."),
    results: list[str] = RESULTS,
    contract: str | None = FOR,
    test: list[str] = typer.Option([], "--test", help="A result on a test instance of it: path or id."),
    remeasured_by: str | None = typer.Option(None, help="The team that re-measures after the swap."),
    due: str | None = typer.Option(None, help="By when, such as 2027-03-31."),
    host: float = HOST,
    catalogue: Path | None = CATALOGUE,
    folders: list[Path] = FROM,
    record: bool | None = typer.Option(
        None, "--record/--no-record", help="Sign and append; left out: when --remeasured-by is given."
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Answer five questions before hardware is bought.

    Exit code 1 when three or more have no evidence, or it is held back: evidence falls short, or was not agreed on.
    """
    names = [*(results or []), *test]
    gathered = deciding.gather(names, folders, ledger, os.environ, contract)
    tests = [result.result_id for result in deciding.gather(test, [], ledger, os.environ).results] if test else []
    decision, _ = deciding.ask_purchase(
        gathered,
        deciding.read_catalogue(catalogue),
        proposed=proposed,
        contract=contract,
        tests=tests,
        remeasured_by=remeasured_by,
        due=due,
        host=host,
    )
    wanted = remeasured_by is not None if record is None else record
    _finish(decision, as_json, ledger if wanted else None, wanted, soft=record is None)
    if not decision.diagnosed:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command(context_settings={"token_normalize_func": lambda word: word.replace("_", "-")})  # memory-bandwidth, too
def whatif(
    result: str = RESULT,
    hardware: str | None = typer.Option(None, help="The proposed accelerator, by its name in the catalogue."),
    fix: Category | None = typer.Option(None, help="The category of time whose cause is removed, such as launch."),
    with_fix: bool = typer.Option(False, "--with-fix", help="Also the fix of the bottleneck that was found."),
    host: float = HOST,
    tested: str | None = typer.Option(None, "--test", help="A result on a test instance, for the assumptions."),
    precision: Precision | None = PRECISION,
    catalogue: Path | None = CATALOGUE,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Estimate what other hardware, or a software fix, would gain on measured shares of time.

    Exit code 1 when it is held back: evidence that it rests on falls short, or its contract was not agreed.
    """
    gathered = deciding.gather([result], [], ledger, os.environ)
    chosen = gathered.results[0]
    on_test = None
    if tested is not None:
        beside = deciding.gather([tested], [], ledger, os.environ)
        on_test, gathered = beside.results[0], deciding.joined(gathered, beside)
    known = deciding.read_catalogue(catalogue)
    if on_test is not None:
        deciding.check_beside(chosen, on_test, known, hardware)
    estimate = estimate_whatif(
        chosen,
        known,
        hardware=hardware,
        fix=fix,
        with_fix=with_fix,
        host=host,
        precision=precision,
        tested=on_test,
    )
    _finish(gathered.judge(estimate), as_json, ledger, record)


@app.command()
def precision(
    results: list[str] = RESULTS,
    contract: str | None = FOR,
    folders: list[Path] = FROM,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say per precision go, no-go or not measured, with speed, memory, energy and accuracy side by side.

    Exit code 1 when it is held back: evidence that it rests on falls short, or its contract was not agreed.
    """
    gathered = deciding.gather(results or [], folders, ledger, os.environ, contract)
    served = contract is None and len({result.contract_id for result in gathered.results}) > 1 and bool(results)
    decide_them = decide_formats if served else decide_precisions
    decision = decide_them(gathered.results if served else one_contract(gathered.results, contract))
    _finish(gathered.judge(decision), as_json, ledger, record)


@app.command()
def capacity(
    result: str = RESULT,
    demand: str | None = typer.Option(None, help='Peak demand, such as "120 requests/s".'),
    mean_demand: str | None = typer.Option(None, help="Average demand: what a naive plan would be made for."),
    demand_log: Path | None = typer.Option(None, help="A request or access log to take demand from; also gzip."),
    columns: list[str] = LOG_COLUMN,
    window: str = typer.Option("60 s", help="Window in which a log's rate is counted."),
    percentile: float | None = typer.Option(None, help="Plan for this percentile of windows instead of the peak."),
    growth: str = typer.Option("0 %", help="Growth until the fleet has to carry it."),
    headroom: str = typer.Option("0 %", help="Room above the planned demand."),
    failures: int = typer.Option(0, help="Nodes that may be gone while the objective still holds."),
    balancing: Balancing = typer.Option(Balancing.RANDOM, help="How requests are spread."),
    period: str = typer.Option("60 min", help="The time over which the objective must hold."),
    claimed: str | None = typer.Option(None, help='A vendor\'s figure for one node, such as "2500 tokens/s".'),
    nameplate: str | None = typer.Option(None, help='Nameplate power of a node, such as "700 W".'),
    pue: float | None = PUE,
    precision: Precision | None = PRECISION,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Size a fleet from steady-state saturation, simulate it, and show what a plan from peak figures gets wrong.

    Exit code 1 when it is held back: evidence that it rests on falls short, or its contract was not agreed.
    """
    gathered = deciding.gather([result], [], ledger, os.environ)
    chosen = gathered.results[0]
    forecast = deciding.demand_of(
        _amount(demand, "requests/s", "--demand"),
        _amount(mean_demand, "requests/s", "--mean-demand"),
        demand_log,
        columns=columns,
        window_s=parse_quantity(window, "s", "--window").in_unit("s"),
        percentile=percentile,
        growth=parse_ratio(growth, where="--growth"),
        result=chosen,
    )
    needed = CapacityDemand(
        demand=forecast,
        headroom=parse_ratio(headroom, where="--headroom"),
        failures=failures,
        balancing=balancing,
        period_s=parse_quantity(period, "s", "--period").in_unit("s"),
        claimed_per_s=deciding.claimed_requests(claimed, chosen, precision),
        nameplate_w=_amount(nameplate, "W", "--nameplate"),
        pue=pue,
    )
    plan = plan_capacity(chosen, needed, precision)
    _finish(gathered.judge(plan), as_json, ledger, record)


@app.command()
def cost(
    results: list[str] = RESULTS,
    plan: Path | None = typer.Option(None, help="A YAML file with candidates and their prices."),
    price: str | None = typer.Option(None, help='Purchase price of a node, such as "18000 EUR".'),
    life: str | None = typer.Option(None, help='Over which it is written off, such as "4 years".'),
    residual: str | None = typer.Option(None, help='What it is worth then, such as "10 %" of the price.'),
    upkeep: str | None = typer.Option(None, help='Maintenance and space, such as "900 EUR/year".'),
    rent: str | None = typer.Option(None, help='Rent of a node, such as "2.10 EUR/h".'),
    energy_price: str | None = typer.Option(None, help='Such as "0.22 EUR/kWh".'),
    pue: float | None = PUE,
    utilisation: str | None = typer.Option(None, help='Busy share of all hours, such as "55 %".'),
    demand: str | None = typer.Option(None, help='Demand to be served, such as "120 requests/s".'),
    wall_factor: float | None = typer.Option(None, help="Power at the wall over the accelerators' own, if measured."),
    objective: Regime | None = typer.Option(None, help="Order the options for this."),
    rank: bool = typer.Option(False, "--rank", help="Ask for an order; refused without --objective or --regimes."),
    regimes: bool = typer.Option(False, "--regimes", help="Show the order in each of the three regimes."),
    precision: Precision | None = PRECISION,
    folders: list[Path] = FROM,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Keep cost, efficiency and value apart; own against rent; the Pareto front; an order only for an objective.

    Exit code 1 when it is held back: evidence that it rests on falls short, or its contract was not agreed.
    """
    terms = terms_from_options(
        price=price, life=life, residual=residual, upkeep=upkeep, rent=rent, energy_price=energy_price, pue=pue
    )
    if plan is not None and results:
        raise BadInput("--plan names its results itself: give a plan, or results with prices")
    gathered = deciding.gather(results or [], folders, ledger, os.environ) if plan is None else None
    chosen, gathered = deciding.candidates_of(plan, gathered, terms, precision, ledger, os.environ)
    question = CostQuestion(
        utilisation=None if utilisation is None else parse_ratio(utilisation, where="--utilisation"),
        demand_per_s=_amount(demand, "requests/s", "--demand"),
        wall_factor=wall_factor,
        objective=objective,
        rank=rank,
        regimes=regimes,
        incomparable=deciding.incomparable([(candidate.name, candidate.result) for candidate in chosen]),
    )
    _finish(gathered.judge(report_cost(chosen, question)), as_json, ledger, record)


@app.command()
def devices(catalogue: Path | None = CATALOGUE, as_json: bool = AS_JSON) -> None:
    """List the devices that decisions know: their nameplate figures, the names drivers report, and the sources."""
    known = deciding.read_catalogue(catalogue)
    answer(
        as_json,
        lambda: {"devices": [device.model_dump(mode="json") for device in known.values()]},
        lambda: terminal_text(compose_devices(known.values()), LIST_WIDTH),
    )


@app.command()
def pack(
    decisions: list[Path] = typer.Argument(help="Decisions as `decide … --json` wrote them; the first one leads."),
    output: Path = typer.Option(..., "--output", "-o", help="The pack to write; .html, .json and .pdf go beside it."),
    title: str = typer.Option("", help="A title; without it, the first decision's."),
    pdf: bool = PDF,
    folders: list[Path] = FROM,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write one signed file with the decisions, their evidence, methodology, limits and contests.

    Exit code 1 when a decision is held back: evidence that it rests on falls short, or its contract was not agreed.
    """
    made = make_pack(decisions, folders, output, title, ledger, os.environ, pdf)
    answer(as_json, made.document, lambda: "\n".join(made.lines()) + "\n")
    if made.held_back:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _finish(decision: Decision, as_json: bool, ledger: str | None, record: bool, *, soft: bool = False) -> None:
    """Record where asked, then print; a soft wish to record never costs the answer."""
    note = ""
    document = decision.model_dump(mode="json")
    if record:
        try:
            recorded = record_decision(decision, ledger)
            document["recorded"] = recorded.document()
            note = recorded.line
        except BadLedger as error:
            if not soft:
                raise
            note = f"not recorded: {error}"
    answer(
        as_json,
        lambda: document,
        lambda: terminal_text(compose_decision(decision)) + (f"\n{note}\n" if note else ""),
    )
    if as_json and note:
        tell(f"lynxbench: {note}")
    if isinstance(decision, DecisionDocument) and is_held_back(decision):
        raise typer.Exit(ExitCode.VERDICT_NO)


def _amount(text: str | None, unit: str, option: str) -> float | None:
    return None if text is None else parse_quantity(text, unit, option).in_unit(unit)
