"""`lynxbench experiment run`: the cells of an experiment, on this machine or on a fleet's nodes."""

from pathlib import Path

import typer

from lynxbench.cli import fleet_options as on_fleet
from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.experiment_progress import VisitProgress
from lynxbench.cli.experiment_show import show_experiment
from lynxbench.cli.options import AS_JSON, DECLARE, LEDGER
from lynxbench.executor.declaration import read_declaration
from lynxbench.experiment.defining import read_definition
from lynxbench.experiment.experiment_run import run_experiment
from lynxbench.fleet.fleet_experiment import refuse_undispatchable, run_dispatched


def run(
    experiment: str = typer.Argument(help="An experiment file, or the name of a bundled one."),
    out: Path = typer.Option(Path("experiments"), help="Folder that receives one folder an experiment."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished one of this definition."),
    declare: Path | None = DECLARE,
    wait_calm: float = typer.Option(
        0.0,
        "--wait-calm",
        min=0,
        max=1440,
        help="Minutes that each visit may wait for others to leave the machine alone.",
    ),
    # The options of a fleet, as for an agent: the parser reads a command's options off its own signature.
    ray: str | None = on_fleet.TO_RAY,
    nodes: str | None = on_fleet.TO_NODES,
    together: bool = on_fleet.TOGETHER,
    wait: int = on_fleet.WAIT_FOR,
    ship: Path | None = on_fleet.SHIP,
    env: list[str] | None = on_fleet.ENV,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Run every cell in fresh processes, in random order, block by block; then say what the cells say together.

    With --ray or --nodes each block goes to one node of a fleet, and blocks go side by side.
    """
    defined = read_definition(experiment)
    declaration = read_declaration(declare) if declare else None
    records, progress, patience_s = AnalysisRecords(ledger), VisitProgress(), wait_calm * 60
    if ray or nodes:
        options = on_fleet.job_options(together, ship, env)
        refuse_undispatchable(defined.definition, options)  # before a cluster is started for it
        with on_fleet.joined(ray, nodes, ship, wait=wait) as fleet:
            finished = run_dispatched(
                fleet, defined, out, declaration, progress, records if records.wanted else None,
                nodes=on_fleet.asked_nodes(ray, nodes), options=options, resume=resume, patience_s=patience_s,
            )  # fmt: skip
    else:
        on_fleet.refuse_fleet_options(together, wait, ship, env)
        finished = run_experiment(defined, out, declaration, progress, records, resume=resume, patience_s=patience_s)
    evidence = records.conclude(finished.folder)
    show_experiment(finished.document, finished.folder, as_json, evidence=evidence)
