"""The knobs of a contract: what they set, what is allowed, and the contract as a setting has it."""

from __future__ import annotations

from collections.abc import Mapping

from lynxbench.errors import BadInput
from lynxbench.experiment.cells import changed
from lynxbench.experiment.definition import spelled
from lynxbench.experiment.searching import Space
from lynxbench.model.contract import Contract, Division, Optimisation
from lynxbench.model.fields import Scalar
from lynxbench.model.precision import reference_of

ENVIRONMENT = "environment."
KEYS = ("engine.", "workload.")


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
