"""A function of the caller's own, out of the program that holds it: its name, what it may import, and a contract."""

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

from lynxbench.engines.callable import module_files
from lynxbench.errors import BadInput, OwnCodeFailed
from lynxbench.model.contract import Contract
from lynxbench.run.quick_target import LONG_PROTOCOL, contract_for, find_target

TERMS = "__lynxbench_terms__"
"""Where a function carries how it is to be measured."""


class FunctionTerms(TypedDict, total=False):
    """How a function is measured, as a contract writes it; what is left out is the contract's usual."""

    restarts: int
    """Fresh processes; fewer than five carry no verdict."""
    min_duration: str
    """The least that a process measures, such as `2 s`."""
    limit: str
    """The most, where it is not steady before."""
    drift: str
    """How far it may drift and still be steady, such as `5 %`."""
    window: str
    """What is averaged before drift is judged, such as `100 ms`."""
    foreign_load: str
    """How much of the CPUs other programs may use before the result is doubtful."""
    session_noise: str
    """How far sittings differ, where it is declared and not learned from the ledger."""
    threads: int
    """Of the numeric libraries; all CPUs of the process where left out."""
    budget: str
    """The loss that is borne: the contract's `policy.regression`."""


def target_of(function: Callable[..., object]) -> str:
    """`module:function` of what stands at the top of a module, where a fresh process can import it."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or _name_in(module, function)
    shown = f"{module}:{name or type(function).__name__}"
    if module == "__main__":
        raise OwnCodeFailed(f"{shown}: no fresh process can import what a script or notebook defines; put it in a file")
    there: Any = sys.modules.get(module)
    for part in (name or "").split("."):
        there = getattr(there, part, None)
    file = getattr(sys.modules.get(module), "__file__", None)
    if there is not function or (file is not None and Path(file).resolve() not in module_files(shown)):
        raise OwnCodeFailed(f"{shown}: no fresh process can import it; put it at the top of a module, under its name")
    return shown


def function_contract(target: str, terms: Mapping[str, Any]) -> Contract:
    """The contract of `module:function` under these terms; the same ones give the same contract on every machine."""
    unknown = sorted(terms.keys() - FunctionTerms.__annotations__.keys())
    if unknown:
        raise BadInput(f"{target}: no term {', '.join(unknown)}; there are {', '.join(FunctionTerms.__annotations__)}")
    given = dict(terms)
    budget, threads = given.pop("budget", None), given.pop("threads", None)
    steady = {name: given.pop(name) for name in ("drift", "window") if name in given}
    return contract_for(
        find_target(target),
        "What",
        {**LONG_PROTOCOL, **given, **({"steady": steady} if steady else {})},
        engine={} if threads is None else {"threads": threads},
        policy={} if budget is None else {"regression": budget},
        where=target,
    )


@contextmanager
def importable() -> Iterator[None]:
    """Let fresh processes import from where this program does: what it put on its own path goes into PYTHONPATH.

    Not registered, for it names places of this machine; what was imported is told by the hash of the function's source.
    """
    usual = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = [place for place in sys.path if Path(place).is_dir() and not any(map(Path(place).is_relative_to, usual))]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(str(Path(place).absolute()) for place in places))
    try:
        yield
    finally:
        del os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _name_in(module: str, instance: object) -> str | None:
    """The name of an object that does not know its own, such as an instance with `__call__`."""
    with suppress(KeyError):
        return next((name for name, value in vars(sys.modules[module]).items() if value is instance), None)
    return None
