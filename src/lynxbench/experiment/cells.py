"""From a combination of levels, or a setting of knobs, to what is run: the contract, its surroundings, the server."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from lynxbench.errors import BadInput
from lynxbench.experiment.definition import Definition, spelled
from lynxbench.experiment.searching import Space
from lynxbench.model.contract import Contract, Division, Optimisation
from lynxbench.model.fields import Scalar
from lynxbench.model.launching import ARGUMENTS
from lynxbench.model.precision import reference_of
from lynxbench.model.serving import ServedEngine
from lynxbench.stats.designs import Cell

INSTALLED = "as installed"
"""A level of `packages` that means the running environment itself."""
ENVIRONMENT = "environment."
KEYS = ("engine.", "workload.")


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One combination: what is run there, or why it cannot be."""

    cell: Cell
    number: int
    levels: dict[str, str]
    contract: Contract | None
    environment: dict[str, str]
    lock: str | None
    """The lock file that its environment is made from, as the definition names it."""
    server: dict[str, Scalar]
    reason: str

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
    environment = {key[12:]: spelled(value) for key, value in settings.items() if key.startswith(ENVIRONMENT)}
    ruled_out = (
        rule.reason
        for rule in definition.infeasible
        if all(levels[name] == spelled(value) for name, value in rule.when.items())
    )
    contract, reason = None, next(ruled_out, "")
    if not reason:
        keys = {key: value for key, value in settings.items() if key.startswith(KEYS)}
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
    elif key.startswith(ARGUMENTS):
        _arguments_of(document, key)[key.removeprefix(ARGUMENTS)] = value
        return
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


def _arguments_of(document: dict[str, object], key: str) -> dict[str, object]:
    """The launch arguments of the server that a contract starts; a server has more of them than a contract lists."""
    engine = document["engine"]
    serve = engine.get("serve") if isinstance(engine, dict) else None
    if not isinstance(serve, dict):
        raise BadInput(f"{key}: the contract starts no server; give it engine.serve")
    arguments: dict[str, object] = serve["arguments"]
    return arguments


# --- the knobs of a contract: what they set, what is allowed, and the contract as a setting has it -------------------


def space_of(contract: Contract) -> Space:
    """The grid a contract allows; BadInput where it allows no tuning or a knob sets nothing."""
    optimisation = contract.optimisation
    if optimisation.division is Division.NONE:
        raise BadInput(
            f"{contract.name}: optimisation.division is none: nothing may be tuned; "
            "agree on bounded, with knobs and a budget"
        )
    if not optimisation.knobs:
        raise BadInput(f"{contract.name}: optimisation.knobs is empty; list the knobs and their values")
    names = tuple(sorted(optimisation.knobs))
    for name in names:
        if not name.startswith((*KEYS, ENVIRONMENT)):
            raise BadInput(
                f"{contract.name}: optimisation.knobs.{name}: name a key of engine or workload, such as "
                "engine.threads, or a variable in lower case, such as environment.malloc_arena_max"
            )
        engine = contract.engine
        served, launched = (
            isinstance(engine, ServedEngine),
            isinstance(engine, ServedEngine) and engine.serve is not None,
        )
        if (name.startswith(ARGUMENTS) or (served and name.startswith(ENVIRONMENT))) and not launched:
            raise BadInput(
                f"{contract.name}: optimisation.knobs.{name}: its server is not started here; give it engine.serve"
            )
        if name in ("workload.seed", "workload.task") or name.startswith("workload.model"):
            raise BadInput(f"{contract.name}: optimisation.knobs.{name}: what is asked is no knob")
    return Space(names, tuple(tuple(optimisation.knobs[name]) for name in names))


def plain(contract: Contract) -> Contract:
    """The contract with one precision: the highest, which answers are held against."""
    precision = reference_of(contract.workload.precisions)
    return changed(contract, {"workload.precision": precision.value})


def tuned(contract: Contract, setting: Mapping[str, Scalar]) -> Contract:
    """The contract with a setting made; its division and knobs stay in it, so that it is compared with its like."""
    keys = {name: value for name, value in setting.items() if name.startswith(KEYS)}
    return changed(plain(contract), keys)


def untuned(contract: Contract) -> Contract:
    """The contract as it comes, in the division where nothing is tuned."""
    return plain(contract).model_copy(update={"optimisation": Optimisation()})


def variables(setting: Mapping[str, Scalar]) -> dict[str, str]:
    """Environment variables of a setting; names are written in lower case in a contract."""
    return {
        name.removeprefix(ENVIRONMENT).upper(): spelled(value)
        for name, value in setting.items()
        if name.startswith(ENVIRONMENT)
    }


def seeded(contract: Contract, seed: int) -> Contract:
    """The contract on another seed: other inputs, and other random weights where it has such."""
    return changed(contract, {"workload.seed": seed})


def shown(setting: Mapping[str, Scalar]) -> str:
    """`engine.graph compile, engine.threads 2`."""
    return ", ".join(f"{name} {spelled(value)}" for name, value in setting.items()) or "as the contract has it"
