"""What was read of the node that a server runs on, by somebody else's exporter: whose word it is, and how good."""

from typing import Annotated

from pydantic import Field

from lynxbench.model.document import Document


class NodeQuantity(Document):
    """One column over the counted time."""

    column: str
    low: float
    mean: float
    high: float
    readings: int


class NodeRecord(Document):
    """The telemetry of a server's node, with its source; nothing here was read by lynxbench from the device."""

    source: str
    """Where it came from, in words: exporters that were scraped, or a Prometheus server that was queried."""
    devices: dict[str, str]
    """Model by device, as the exporter names it; empty where it does not."""
    readings: int
    """Different ones: a value that an exporter shows again because it has not looked again is none."""
    every_s: float | None
    """The usual time between two; None of fewer than two."""
    covered: float
    """The share of the counted time that has a device's reading of about then."""
    skew_s: float | None
    """How far the clock of the node, or of Prometheus, is ahead of this machine's; None where nobody says."""
    skew_bound_s: Annotated[float | None, Field(exclude_if=lambda bound: bound is None)] = None
    quantities: tuple[NodeQuantity, ...] = ()
    throttled: Annotated[dict[str, float], Field(exclude_if=lambda throttled: not throttled)] = {}
    """By device and reason: the share of its readings in which the reason was active."""
    notes: tuple[str, ...] = ()
    """Gaps, what was left out, and what therefore is not said."""


class NodeNotes(Document):
    """What the reader saw beside the columns; kept in the run's folder beside them."""

    source: str
    devices: dict[str, str] = {}
    mixed: tuple[str, ...] = ()
    """Devices, or `host`, under whose name several answered in turn: nothing of them is used."""
    began_s: float | None = None
    """When the run began, in Unix time; one that is resumed asks for all of it again."""
    skew_s: float | None = None
    skew_bound_s: float | None = None
    notes: tuple[str, ...] = ()
