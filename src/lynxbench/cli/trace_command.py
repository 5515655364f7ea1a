"""`trace`: attribute profiler traces that anybody recorded."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import typer
from pydantic import TypeAdapter, ValidationError

from lynxbench.attribute.attributing import TraceSettings, analyse_trace, compare_traces
from lynxbench.attribute.judge.faster_hardware import STANDARD_SWAPS, Swap
from lynxbench.attribute.judge.roofline import DEVICES, ceilings_of
from lynxbench.attribute.rank_traces import analyse_ranks, find_traces
from lynxbench.cli.answers import answer, tell, write_page
from lynxbench.cli.options import AS_JSON, DEVICE, OWNERS
from lynxbench.cli.showing import terminal_text
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Ceiling
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.plain_files import read_plain
from lynxbench.report.documents.trace_document import compose_trace
from lynxbench.report.documents.trace_view import document_of, view_of
from lynxbench.report.render_html import render_html

CPU = "cpu"
"""What a trace without an accelerator is attributed on; its ceilings are measured with it."""


def trace(
    files: list[Path] = typer.Argument(
        help="A trace, recognised by its content: PyTorch, JAX/XLA, Nsight Systems or Compute, rocprofv3, TensorRT, "
        "Triton. Several, or a folder: one rank each.",
        show_default=False,
    ),
    against: Path | None = typer.Option(None, help="An earlier trace, to compare with operator by operator."),
    step_ms: float | None = typer.Option(None, help="Step time without the profiler, in milliseconds."),
    ceilings: Path | None = typer.Option(None, help="A result or JSON document with measured ceilings."),
    device: str | None = DEVICE,
    precision: Precision | None = typer.Option(None, help="Precision of the products; found in the trace if omitted."),
    owners: str | None = OWNERS,
    what_if: list[str] = typer.Option([], help='Faster hardware, such as "compute=2,bandwidth=1.5,link=2,host=1.2".'),
    html: Path | None = typer.Option(None, help="Write a page with plots."),
    perfetto: Path | None = typer.Option(None, help="Write the trace with our categories as a track."),
    as_json: bool = AS_JSON,
) -> None:
    """Say where the time of a step goes, which layer and owner it points to, and what removing it would gain."""
    if step_ms is not None and not 0 < step_ms < float("inf"):
        raise BadInput(f"--step-ms {step_ms} is not a step time; give milliseconds above 0")
    settings = TraceSettings(
        ceilings=ceilings_for(ceilings, device),
        precision=precision,
        step_ms=step_ms,
        owners=owners_of(owners),
        swaps=tuple(_swap(text) for text in what_if) or STANDARD_SWAPS,
    )
    traces = find_traces(files)
    if against is not None and len(traces) != 1:
        raise BadInput(f"--against compares two traces; {len(traces)} were given beside it, give one")
    report = analyse_ranks(traces, settings, perfetto=perfetto)
    view = view_of(report)
    if what_if and not view.swaps:
        raise BadInput(f"--what-if: {view.source} does not record a whole step, so other hardware cannot be estimated")
    if against is not None and report.main.analysis is not None:
        earlier = analyse_trace(against, replace(settings, step_ms=None))
        view = replace(view, change=compare_traces(earlier, report.main.analysis, against.name, settings))
    write_page(html, lambda: render_html(compose_trace(view)))
    if not settings.ceilings and not view.attribution.ceilings:
        _tell_ceilings(view.detail.device)
    answer(
        as_json,
        lambda: document_of(report, view),
        lambda: terminal_text(compose_trace(view)),
    )


def _tell_ceilings(device: str) -> None:
    """Without ceilings nobody can say how near them it ran: which option would bring them, for a known device."""
    known = next((name for name in DEVICES if re.search(rf"\b{name}\b", device.lower())), None)
    if device == CPU:
        return
    measured = "--ceilings RESULT takes those that a run on it measured"
    declared = "" if known is None else f", --device {known} takes declared ones"
    tell(f"lynxbench: no ceilings of {device} are known, so no kernel is held against any: {measured}{declared}")


def ceilings_for(path: Path | None, device: str | None) -> tuple[Ceiling, ...]:
    """Measured ceilings from a file, or the declared ones of a device."""
    if path is not None and device is not None:
        raise BadInput("--ceilings and --device exclude each other: measured figures, or declared ones")
    if path is not None:
        return _read_ceilings(path)
    if device is None:
        return ()
    known = ceilings_of(device)
    if known is None:
        raise BadInput(f"--device {device!r} is not in the table ({', '.join(DEVICES)}); measure and give --ceilings")
    return known


def _read_ceilings(path: Path) -> tuple[Ceiling, ...]:
    try:
        document = json.loads(read_plain(path).decode("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a result document") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{path}: is not JSON; give a result document with measured ceilings") from None
    listed = document.get("ceilings") if isinstance(document, dict) else document
    if not isinstance(listed, list) or not listed:
        raise BadInput(f"{path}: holds no ceilings; give a result document of a run that measured them")
    try:
        return tuple(TypeAdapter(list[Ceiling]).validate_json(json.dumps(listed)))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput(f"{path}: ceilings: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def owners_of(contract: str | None) -> dict[Layer, str] | None:
    """Who owns each layer, as a contract has it."""
    if contract is None:
        return None
    agreed = read_contract(contract)
    return {layer: agreed.owner(layer) for layer in Layer}


def _swap(text: str) -> Swap:
    names = [field.name for field in fields(Swap)]
    factors: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            factor = float(value)
        except ValueError:
            factor = 0.0
        if name not in names or not 0 < factor < float("inf"):
            raise BadInput(f"--what-if {part.strip()!r}: write {', '.join(names)} with a factor, such as compute=2")
        factors[name] = factor
    return Swap(**factors)
