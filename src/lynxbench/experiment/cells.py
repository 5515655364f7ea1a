"""From a combination of levels to what is run: the contract as it then is, the processes' surroundings, the server."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from lynxbench.errors import BadInput
from lynxbench.experiment.definition import Definition, spelled
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.stats.designs import Cell

INSTALLED = "as installed"
"""A level of `packages` that means the running environment itself."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One combination: what is run there, or why it cannot be."""

    cell: Cell
    number: int
    levels: dict[str, str]
    contract: Contract | None
    environment: dict[str, str] = field(default_factory=dict)
    lock: str | None = None
    """The lock file that its environment is made from, as the definition names it."""
    server: dict[str, Scalar] = field(default_factory=dict)
    reason: str = ""

    @property
    def words(self) -> str:
        """`threads 2, graph compile`."""
        return ", ".join(f"{name} {level}" for name, level in self.levels.items())


def plan_cells(definition: Definition) -> tuple[CellPlan, ...]:
    """Every cell of the design, in standard order."""
    return tuple(_plan_cell(definition, cell, number) for number, cell in enumerate(definition.plan().cells))


def _plan_cell(definition: Definition, cell: Cell, number: int) -> CellPlan:
    levels = {factor.name: factor.level_names[at] for factor, at in zip(definition.factors, cell, strict=True)}
    settings: dict[str, Scalar] = {}
    for factor, at in zip(definition.factors, cell, strict=True):
        settings |= factor.settings(at)
    lock = settings.get("packages")
    server = dict(definition.server.values) if definition.server is not None else {}
    server |= {key[7:]: value for key, value in settings.items() if key.startswith("server.")}
    environment = {key[12:]: spelled(value) for key, value in settings.items() if key.startswith("environment.")}
    known = next((rule.reason for rule in definition.infeasible if _matches(rule.when, levels)), "")
    contract: Contract | None = None
    reason = known
    if not known:
        keys = {key: value for key, value in settings.items() if key.startswith(("engine.", "workload."))}
        try:
            contract = changed(definition.contract, keys, restarts=definition.restarts)
        except BadInput as error:
            reason = str(error)
    return CellPlan(
        cell=cell,
        number=number,
        levels=levels,
        contract=contract,
        environment=environment,
        lock=None if lock is None or lock == INSTALLED else str(lock),
        server=server,
        reason=reason,
    )


def _matches(when: Mapping[str, Scalar], levels: Mapping[str, str]) -> bool:
    return all(levels[name] == spelled(value) for name, value in when.items())


def changed(contract: Contract, keys: Mapping[str, Scalar], *, restarts: int | None = None) -> Contract:
    """The contract with some keys set; BadInput where it is then no contract, with the validator's reason."""
    document = copy.deepcopy(contract.canonical())
    for key, value in keys.items():
        _set(document, key, value)
    if restarts is not None:
        _set(document, "protocol.restarts", restarts)
    try:
        return Contract.model_validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "contract"
        raise BadInput(f"no such contract: {where}: {first['msg']}") from None


def _set(document: dict[str, object], key: str, value: Scalar) -> None:
    """Set one key by its path; `workload.precision` is a list of one, and a length's number is a fixed length."""
    held: object = value
    if key in ("workload.precision", "workload.precisions"):
        key, held = "workload.precisions", [value]
    elif key in ("workload.input_tokens", "workload.output_tokens"):
        held = {"distribution": "fixed", "value": value}
    elif key == "workload.concurrency":
        key, held = "workload.arrival", {"process": "closed", "concurrency": value}
    *path, last = key.split(".")
    at: dict[str, object] = document
    for part in path:
        inner = at.get(part)
        if not isinstance(inner, dict):
            raise BadInput(f"{key}: the contract has no key {part} to set it in")
        at = inner
    if last not in at:
        raise BadInput(f"{key}: the contract has no such key; it has {', '.join(sorted(at))} there")
    at[last] = held
