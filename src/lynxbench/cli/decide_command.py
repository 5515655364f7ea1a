"""`lynxbench decide`: from evidence to a decision that cites it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from lynxbench.decide.deciding import Gathered
    from lynxbench.model.attribution import Category
    from lynxbench.model.contract import Regime
    from lynxbench.report.documents.decision_document import Decision
    from lynxbench.stats.fleets import Balancing

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

FROM = typer.Option([], "--from", help="Folder with results; may be given more than once. Without it, the ledger.")
FOR = typer.Option(None, "--for", help="The contract, by name or id, where there are results of several.")
PRECISION = typer.Option(None, help="Which precision; the first that was measured if left out.")
CATALOGUE = typer.Option(None, "--catalogue", help="A YAML file with accelerators of your own.")
RESULTS = typer.Argument(None, help="Results: paths, ids or their unique beginnings.", show_default=False)
RESULT = typer.Argument(help="A result: path, id or its unique beginning.")
RECORD = typer.Option(False, "--record", help="Sign the decision and append it to the ledger.")


@app.command()
def purchase(
    proposed: str = typer.Option(..., help="The proposed accelerator, by its name in the catalogue."),
    results: list[str] = RESULTS,
    contract: str | None = FOR,
    test: list[str] = typer.Option([], "--test", help="A result on a test instance of it: path or id."),
    remeasured_by: str | None = typer.Option(None, help="The team that re-measures after the swap."),
    due: str | None = typer.Option(None, help="By when, such as 2027-03-31."),
    host: float = typer.Option(1.0, help="How many times faster the new machine's host is."),
    catalogue: Path | None = CATALOGUE,
    folders: list[Path] = FROM,
    record: bool | None = typer.Option(
        None, "--record/--no-record", help="Sign and append; left out: when --remeasured-by is given."
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Answer five questions before hardware is bought. Exit code 1 when three or more have no evidence."""
    import os

    from lynxbench.decide.deciding import ask_purchase, gather, read_catalogue

    names = [*(results or []), *test]
    gathered = gather(names, folders, ledger, os.environ, contract)
    tests = [one.result_id for one in gather(test, [], ledger, os.environ).results] if test else []
    decision, _ = ask_purchase(
        gathered,
        read_catalogue(catalogue),
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


@app.command()
def whatif(
    result: str = RESULT,
    hardware: str | None = typer.Option(None, help="The proposed accelerator, by its name in the catalogue."),
    fix: str | None = typer.Option(None, help="The category of time whose cause is removed, such as launch."),
    with_fix: bool = typer.Option(False, "--with-fix", help="Also the fix of the bottleneck that was found."),
    host: float = typer.Option(1.0, help="How many times faster the new machine's host is."),
    tested: str | None = typer.Option(None, "--test", help="A result on a test instance, for the assumptions."),
    precision: str | None = PRECISION,
    catalogue: Path | None = CATALOGUE,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Estimate what other hardware, or a software fix, would gain on measured shares of time."""
    import os

    from lynxbench.cli.naming import parse_precision
    from lynxbench.decide.deciding import gather, read_catalogue
    from lynxbench.decide.whatif import estimate_whatif

    gathered = gather([result], [], ledger, os.environ)
    on_test = gather([tested], [], ledger, os.environ).results[0] if tested is not None else None
    found = estimate_whatif(
        gathered.results[0],
        read_catalogue(catalogue),
        hardware=hardware,
        fix=_category(fix),
        with_fix=with_fix,
        host=host,
        precision=parse_precision(precision),
        tested=on_test,
    )
    _finish(_doubted(found, gathered), as_json, ledger, record)


@app.command()
def precision(
    results: list[str] = RESULTS,
    contract: str | None = FOR,
    folders: list[Path] = FROM,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say per precision go, no-go or not measured, with speed, memory, energy and accuracy side by side."""
    import os

    from lynxbench.decide.deciding import gather
    from lynxbench.decide.precision_choice import decide_precisions
    from lynxbench.decide.usable_figures import one_contract

    gathered = gather(results or [], folders, ledger, os.environ, contract)
    decision = decide_precisions(one_contract(gathered.results, contract))
    _finish(_doubted(decision, gathered), as_json, ledger, record)


@app.command()
def capacity(
    result: str = RESULT,
    demand: str | None = typer.Option(None, help='Peak demand, such as "120 requests/s".'),
    mean_demand: str | None = typer.Option(None, help="Average demand: what a naive plan would be made for."),
    demand_log: Path | None = typer.Option(None, help="A request log (JSON lines or CSV) to take demand from."),
    window: str = typer.Option("60 s", help="Window in which a log's rate is counted."),
    percentile: float | None = typer.Option(None, help="Plan for this percentile of windows instead of the peak."),
    growth: str = typer.Option("0 %", help="Growth until the fleet has to carry it."),
    headroom: str = typer.Option("0 %", help="Room above the planned demand."),
    failures: int = typer.Option(0, help="Nodes that may be gone while the objective still holds."),
    balancing: str = typer.Option("random", help="How requests are spread: random, round-robin or shared-queue."),
    period: str = typer.Option("60 min", help="The time over which the objective must hold."),
    claimed: str | None = typer.Option(None, help='A vendor\'s figure for one node, such as "2500 tokens/s".'),
    nameplate: str | None = typer.Option(None, help='Nameplate power of a node, such as "700 W".'),
    pue: float | None = typer.Option(None, help="Facility power over the machines' power."),
    precision: str | None = PRECISION,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Size a fleet from steady-state saturation, simulate it, and show what a plan from peak figures gets wrong."""
    import os

    from lynxbench.cli.naming import parse_precision
    from lynxbench.decide.capacity import CapacityDemand, plan_capacity
    from lynxbench.decide.deciding import claimed_requests, demand_of, gather
    from lynxbench.model.quantities import parse_quantity

    def rate(text: str | None, option: str) -> float | None:
        return None if text is None else parse_quantity(text, "requests/s", option).in_unit("requests/s")

    gathered = gather([result], [], ledger, os.environ)
    chosen = gathered.results[0]
    forecast = demand_of(
        rate(demand, "--demand"),
        rate(mean_demand, "--mean-demand"),
        demand_log,
        window_s=parse_quantity(window, "s", "--window").in_unit("s"),
        percentile=percentile,
        growth=_ratio(growth, "--growth"),
        result=chosen,
    )
    asked = CapacityDemand(
        demand=forecast,
        headroom=_ratio(headroom, "--headroom"),
        failures=failures,
        balancing=_balancing(balancing),
        period_s=parse_quantity(period, "s", "--period").in_unit("s"),
        claimed_per_s=claimed_requests(claimed, chosen, parse_precision(precision)),
        nameplate_w=None if nameplate is None else parse_quantity(nameplate, "W", "--nameplate").in_unit("W"),
        pue=pue,
    )
    plan = plan_capacity(chosen, asked, parse_precision(precision))
    _finish(_doubted(plan, gathered), as_json, ledger, record)


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
    pue: float | None = typer.Option(None, help="Facility power over the machines' power."),
    utilisation: str | None = typer.Option(None, help='Busy share of all hours, such as "55 %".'),
    demand: str | None = typer.Option(None, help='Demand to be served, such as "120 requests/s".'),
    wall_factor: float | None = typer.Option(None, help="Power at the wall over the accelerators' own, if measured."),
    objective: str | None = typer.Option(None, help="Order the options: latency, throughput or cost."),
    rank: bool = typer.Option(False, "--rank", help="Ask for an order; refused without --objective or --regimes."),
    regimes: bool = typer.Option(False, "--regimes", help="Show the order in each of the three regimes."),
    precision: str | None = PRECISION,
    folders: list[Path] = FROM,
    record: bool = RECORD,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Keep cost, efficiency and value apart; own against rent; the Pareto front; an order only for an objective."""
    import os

    from lynxbench.cli.naming import parse_precision
    from lynxbench.decide.cost import CostQuestion, report_cost
    from lynxbench.decide.deciding import candidates_of, gather, incomparable
    from lynxbench.decide.offers import terms_from_options
    from lynxbench.model.quantities import parse_quantity

    terms = terms_from_options(
        price=price, life=life, residual=residual, upkeep=upkeep, rent=rent, energy_price=energy_price, pue=pue
    )
    if plan is not None and results:
        raise BadInput("--plan names its results itself: give a plan, or results with prices")
    gathered = gather(results or [], folders, ledger, os.environ) if plan is None else None
    chosen, gathered = candidates_of(plan, gathered, terms, parse_precision(precision), ledger, os.environ)
    asked = CostQuestion(
        utilisation=None if utilisation is None else _ratio(utilisation, "--utilisation"),
        demand_per_s=None if demand is None else parse_quantity(demand, "requests/s", "--demand").in_unit("requests/s"),
        wall_factor=wall_factor,
        objective=_regime(objective),
        rank=rank,
        regimes=regimes,
        incomparable=incomparable([(one.name, one.result) for one in chosen]),
    )
    _finish(_doubted(report_cost(chosen, asked), gathered), as_json, ledger, record)


@app.command()
def pack(
    decisions: list[Path] = typer.Argument(help="Decisions as `decide … --json` wrote them; the first one leads."),
    output: Path = typer.Option(..., "--output", "-o", help="The pack to write; .html, .json and .pdf go beside it."),
    title: str = typer.Option("", help="A title; without it, the first decision's."),
    pdf: bool = typer.Option(True, "--pdf/--no-pdf", help="Also a PDF, where the extra `pdf` is installed."),
    folders: list[Path] = FROM,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write one signed file with the decisions, their evidence, methodology, limits and contests."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.decide.packing import make_pack

    made = make_pack(decisions, folders, output, title, ledger, os.environ, pdf)
    if as_json:
        print_document(made.document())
        return
    for line in made.lines():
        print(line)


def _finish(decision: Decision, as_json: bool, ledger: str | None, record: bool, *, soft: bool = False) -> None:
    """Record where asked, then print; a soft wish to record never costs the answer."""
    import sys

    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.errors import BadLedger
    from lynxbench.report.documents.decision_document import compose_decision

    told = ""
    document = decision.model_dump(mode="json")
    if record:
        from lynxbench.decide.packing import record_decision

        try:
            done = record_decision(decision, ledger)
            document["recorded"] = done.document()
            told = done.line
        except BadLedger as error:
            if not soft:
                raise
            told = f"not recorded: {error}"
    if as_json:
        print_document(document)
        if told:
            print(f"lynxbench: {told}", file=sys.stderr)
        return
    print(terminal_text(compose_decision(decision)), end="")
    if told:
        print(f"\n{told}")


def _doubted(decision: Decision, gathered: Gathered) -> Decision:
    doubts = gathered.doubts(getattr(decision, "cites", ()))
    if not doubts:
        return decision
    cautions = (*getattr(decision, "cautions", ()), *doubts)
    return decision.model_copy(update={"cautions": cautions})


def _ratio(text: str, option: str) -> float:
    from lynxbench.model.quantities import parse_ratio

    try:
        return parse_ratio(text)
    except ValueError as error:
        raise BadInput(f"{option}: {error}") from None


def _balancing(text: str) -> Balancing:
    from lynxbench.stats.fleets import Balancing

    try:
        return Balancing(text)
    except ValueError:
        raise BadInput(f"--balancing {text!r}: choose {', '.join(Balancing)}") from None


def _regime(text: str | None) -> Regime | None:
    from lynxbench.model.contract import Regime

    if text is None:
        return None
    try:
        return Regime(text)
    except ValueError:
        raise BadInput(f"--objective {text!r}: choose {', '.join(Regime)}") from None


def _category(text: str | None) -> Category | None:
    from lynxbench.model.attribution import Category

    if text is None:
        return None
    try:
        return Category(text.replace("-", "_"))
    except ValueError:
        raise BadInput(f"--fix {text!r}: choose {', '.join(Category)}") from None
