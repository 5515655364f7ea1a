"""`lynxbench experiment`: factorial experiments over layers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.cli.fleet_options import ENV, SHIP, TO_NODES, TO_RAY, TOGETHER, WAIT_FOR, WAIT_S
from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput

if TYPE_CHECKING:
    from lynxbench.model.experiment import ExperimentDocument
    from lynxbench.record.recording import LedgerRecorder
    from lynxbench.run.run_outcome import Recorder

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

OUT = typer.Option(Path("experiments"), help="Folder that receives one folder an experiment.")


@app.command()
def run(
    experiment: str = typer.Argument(help="An experiment file, or the name of a bundled one."),
    out: Path = OUT,
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished one of this definition."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    wait_calm: float = typer.Option(
        0.0,
        "--wait-calm",
        min=0,
        max=1440,
        help="Minutes that each visit may wait for others to leave the machine alone.",
    ),
    ray: str | None = TO_RAY,
    nodes: str | None = TO_NODES,
    together: bool = TOGETHER,
    wait: int = WAIT_FOR,
    ship: Path | None = SHIP,
    env: list[str] | None = ENV,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Run every cell in fresh processes, in random order, block by block; then say what the cells say together.

    With --ray or --nodes each block goes to one node of a fleet, and blocks go side by side.
    """
    from lynxbench.cli.experiment_progress import VisitProgress
    from lynxbench.cli.fleet_options import asked_nodes, job_options, joined, refuse_fleet_options
    from lynxbench.experiment.defining import read_definition

    defined = read_definition(experiment)
    declaration = None
    if declare is not None:
        from lynxbench.executor.declaration import read_declaration

        declaration = read_declaration(declare)
    records = Records(ledger)
    patience_s = wait_calm * 60
    if ray or nodes:
        from lynxbench.fleet.cluster import wait_for
        from lynxbench.fleet.fleet_experiment import refuse_undispatchable, run_dispatched

        options = job_options(together, ship, env)
        refuse_undispatchable(defined.definition, options)  # before a cluster is started for it
        with joined(ray, nodes, ship) as fleet:
            wait_for(fleet, wait, WAIT_S)
            finished = run_dispatched(
                fleet, defined, out, declaration, VisitProgress(), records if records.wanted else None,
                nodes=asked_nodes(ray, nodes), options=options, resume=resume, patience_s=patience_s,
            )  # fmt: skip
    else:
        from lynxbench.experiment.experiment_run import run_experiment

        refuse_fleet_options(together, wait, ship, env)
        finished = run_experiment(
            defined, out, declaration, VisitProgress(), records, resume=resume, patience_s=patience_s
        )
    evidence = records.conclude(finished.folder)
    records.tell()
    _show(finished.document, finished.folder, as_json, evidence=evidence)


@app.command()
def show(
    experiment: Path = typer.Argument(help="The folder of an experiment, or its analysis.json."),
    html: Path | None = typer.Option(None, "--html", help="Also write the page to this file."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what an experiment found; an unfinished one as far as it came."""
    from lynxbench.experiment.experiment_outcome import read_experiment

    _show(read_experiment(experiment), experiment if experiment.is_dir() else experiment.parent, as_json, html)


@app.command("list")
def list_(as_json: bool = AS_JSON) -> None:
    """List the bundled experiments."""
    from lynxbench.cli.naming import print_document
    from lynxbench.experiment.defining import bundled_experiments, read_definition

    found = [read_definition(name).definition for name in bundled_experiments()]
    if as_json:
        print_document(
            [{"name": one.name, "question": one.question, "definition_id": one.definition_id} for one in found]
        )
        return
    for one in found:
        print(f"{one.name:<24} {one.question}")


@app.command()
def template(name: str = typer.Argument(help="A bundled experiment to start from.")) -> None:
    """Print a bundled experiment as it is written, to start from."""
    from lynxbench.experiment.defining import bundled_experiments, read_bundled_experiment

    if name not in bundled_experiments():
        raise BadInput(f"{name}: no bundled experiment of this name; there are {', '.join(bundled_experiments())}")
    print(read_bundled_experiment(name), end="")


class Records:
    """A recorder for every run, and what is to be told about them at the end."""

    def __init__(self, ledger: str | None) -> None:
        self._ledger = ledger
        self._made: list[LedgerRecorder] = []

    def __call__(self) -> Recorder | None:
        """The recorder of the next run; None where none is wanted."""
        from lynxbench.cli.output import recorder_for

        recorder = recorder_for(self._ledger)
        if recorder is not None:
            self._made.append(recorder)
        return recorder

    @property
    def wanted(self) -> bool:
        """Whether runs are recorded at all."""
        from lynxbench.cli.output import recorder_for

        return recorder_for(self._ledger) is not None

    def conclude(self, folder: Path) -> str:
        """Sign what the recorded runs say together; a line for people, empty where nothing was recorded."""
        from lynxbench.cli.output import recorder_for
        from lynxbench.errors import LynxbenchError
        from lynxbench.model.canonical import short

        recorder = recorder_for(self._ledger)
        if recorder is None:
            return ""
        from lynxbench.record.recording_analyses import read_analysis, record_analysis

        self._made.append(recorder)
        try:
            found = read_analysis(folder)
        except LynxbenchError as error:
            recorder.problem = str(error)
            return ""
        one = recorder.take(lambda ledger, key: record_analysis(ledger, found, key))
        if one is None:
            return ""
        return f"sha256:{short(one.result_id)}…, entry {one.seq}   verify: lynxbench verify {short(one.result_id)}"

    def tell(self) -> None:
        """What is to be known about the record, each line once."""
        import sys

        news = [one.news for one in self._made if one.news is not None]
        problems = [f"not recorded: {one.problem}; the run is kept" for one in self._made if one.problem is not None]
        for line in dict.fromkeys([*news, *problems]):
            print(f"lynxbench: {line}", file=sys.stderr)


def _show(
    document: ExperimentDocument, folder: Path, as_json: bool, html: Path | None = None, evidence: str = ""
) -> None:
    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.evidence.documents import write_text
    from lynxbench.model.analyses import analysis_id
    from lynxbench.report.documents.experiment_document import compose_experiment
    from lynxbench.report.render_html import render_html

    page = html or folder / "report.html"
    if document.finished_at is not None or html is not None:
        write_text(page, render_html(compose_experiment(document)))
    if as_json:
        print_document({"analysis_id": analysis_id(document), **document.model_dump(mode="json")})
        return
    print(terminal_text(compose_experiment(document)), end="")
    if page.exists():
        print(f"\nreport    {page}")
    if evidence:
        print(f"evidence  {evidence}")
