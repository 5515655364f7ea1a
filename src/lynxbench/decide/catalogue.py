"""The catalogue of accelerators as values: parsed strictly, extended by a file of the user's own."""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue

from lynxbench.errors import BadInput
from lynxbench.model.decisions import CeilingSource, Device
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.fields import One, Text
from lynxbench.model.layers import Layer
from lynxbench.model.machine_words import MOST_LETTERS
from lynxbench.model.precision import Precision
from lynxbench.model.strict_file import FileForm, parse_file


def _year(value: object) -> object:
    """A year may be written without quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


OTHER_BOARD = r" (?:laptop|mobile|max-q|ti|super|d)\b"
"""What a driver adds to a name where it is another board."""
Rate = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]


class ListedDevice(Document):
    """A device as a catalogue lists it."""

    title: Annotated[Text, Field(description="its full name, such as NVIDIA H200")]
    reported_as: tuple[Text, ...] = ()
    dense_tera_per_s: Annotated[
        dict[Precision, Rate], Field(alias="dense", description="rates by format, such as {bf16: 989.4}")
    ] = {}
    memory_gb: Annotated[Rate | None, Field(description="gigabytes of memory")] = None
    memory_tb_per_s: Annotated[Rate, Field(alias="memory", description="terabytes a second of the memory")]
    link_gb_per_s: Annotated[
        Rate | None, Field(alias="link", description="gigabytes a second of the host link, one direction")
    ] = None
    interconnect_gb_per_s: Annotated[Rate | None, Field(alias="interconnect")] = None
    board_w: Annotated[Rate | None, Field(description="watts of the board, at most")] = None
    native: Annotated[
        tuple[Precision, ...], Field(description="formats that it executes natively, such as [bf16]")
    ] = ()
    released: Annotated[Text, BeforeValidator(_year), Field(description="the year")]
    sources: Annotated[
        tuple[CeilingSource, ...], Field(min_length=1, description="where the figures are from, as {what, where}")
    ]


class CatalogueFile(Document):
    """Devices by short name."""

    lynxbench: One
    devices: Annotated[dict[str, ListedDevice], Field(min_length=1, description="devices by short name")]


CATALOGUE = FileForm("a catalogue", "begin it with `lynxbench: 1` and list `devices`", CatalogueFile)


def parse_catalogue(text: str, file: str) -> dict[str, Device]:
    """Devices by name; BadFile says the file, the line, the key and what would be right."""
    listed = parse_file(text, file, CATALOGUE).devices
    return {
        name.lower(): Device(
            name=name.lower(), **{**dict(device), "reported_as": tuple(alias.lower() for alias in device.reported_as)}
        )
        for name, device in listed.items()
    }


def find_device(catalogue: Mapping[str, Device], name: str) -> Device:
    """A device by its short name; BadInput lists what is near."""
    if name.lower() in catalogue:
        return catalogue[name.lower()]
    near = difflib.get_close_matches(name.lower(), catalogue, n=3, cutoff=0.4) or sorted(catalogue)
    raise BadInput(f"--hardware {name!r} is not in the catalogue ({', '.join(near)}); add it with --catalogue FILE")


def accelerator_name(executor: Executor) -> str | None:
    """The name that an accelerator's driver reports, the first of several; None where none does."""
    stated = executor.get(Layer.ACCELERATOR, "gpu_name")
    names = stated if isinstance(stated, list) else [stated]
    return next((name for name in names if isinstance(name, str) and name), None)


def unshown_device(catalogue: Mapping[str, Device], executor: Executor, proposed: str) -> str:
    """Why nothing in a result shows that it ran on the proposed device; empty where its name does."""
    reported = accelerator_name(executor)
    if reported is None:
        return "" if recognise(catalogue, executor) is not None else "its executor names no accelerator"
    if recognise(catalogue, executor) is not None:
        return ""
    if re.search(rf"(?<!\w){re.escape(proposed.lower())}(?!\w)(?!{OTHER_BOARD})", reported.lower()):
        return ""
    return f"its driver reports {reported[:MOST_LETTERS]!a}, which the catalogue does not know"


def recognise(catalogue: Mapping[str, Device], executor: Executor) -> Device | None:
    """The device an executor runs on, by the name its driver reports, else a lone processor's; None where unknown."""
    stated: JsonValue = accelerator_name(executor)
    if stated is None and executor.get(Layer.ACCELERATOR, "cpu_sockets") == 1:
        stated = executor.get(Layer.ACCELERATOR, "cpu_model")
    if not isinstance(stated, str):
        return None
    reported = stated.lower()
    hits = [
        (len(alias), device)
        for device in catalogue.values()
        for alias in device.reported_as
        if re.search(rf"(?<!\w){re.escape(alias)}(?!\w)(?!{OTHER_BOARD})", reported)  # an A10 is no A100
    ]
    return max(hits, key=lambda hit: hit[0])[1] if hits else None
