"""Causes that an engine can remove for real, to test what an attribution says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lynxbench.errors import BadInput
from lynxbench.model.fields import Scalar
from lynxbench.model.launching import ARGUMENTS


class Change(StrEnum):
    """One thing that is changed in a step while everything else stays."""

    REPLAY = "replay as a CUDA graph"
    COMPILE = "compile the step"
    PRESTAGE = "prestage the inputs"
    PIN = "pin the transfers"
    NO_TRANSFER = "remove the transfers"
    NO_SYNC = "remove the synchronisation"
    DOUBLE_BATCH = "double the batch"
    STEP_PRECISION = "step the precision"


class InterventionScope(StrEnum):
    """Which changes are tried."""

    VERDICT = "verdict"
    """Those that speak for or against the bottleneck that was named."""
    ALL = "all"
    """Every one that the engine can make."""


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """Launch arguments to try on a server, named by whoever asks."""

    arguments: Mapping[str, Scalar]


InterventionChoice = InterventionScope | ArgumentChange


def parse_intervention(text: str) -> InterventionChoice:
    """`verdict`, `all`, or what to set: `engine.serve.arguments.max-num-seqs=256`, several with spaces between them."""
    if text in set(InterventionScope):
        return InterventionScope(text)
    changed: dict[str, Scalar] = {}
    for part in text.split():
        key, sign, value = part.partition("=")
        name = key.removeprefix(ARGUMENTS)
        if not sign or not value or name == key or not name:
            raise BadInput(
                f"--intervene {text!r}: say verdict, all, or a launch argument with its value, such as "
                f"{ARGUMENTS}max-num-seqs=256 (true is a bare flag, false leaves it out)"
            )
        changed[name] = _scalar(value)
    return ArgumentChange(changed)


def _scalar(text: str) -> Scalar:
    """A value as a contract's file would read it."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
