"""Which adapter executes a contract's engine. Nothing heavy is imported before an engine is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Engine, PluginEngine
from lynxbench.model.serving import ServedEngine

ENTRY_POINT_GROUP = "lynxbench.engines"
"""A package registers `name = "module:engine"` here; `engine()` returns an object shaped like load.session.Engine."""

BUILT_IN: dict[str, str] = {
    "torch": "lynxbench.engines.torch",
    "onnx": "lynxbench.engines.onnx",
    "callable": "lynxbench.engines.callable",
}
INSTALL: dict[str, str] = {"torch": "lynxbench[torch]", "onnx": "lynxbench[onnx]", "callable": "lynxbench"}
SHAPE = ("name", "available", "estimate", "open")


def load_engine(spec: Engine) -> Any:
    """The engine a contract names (the shape of load.session.Engine); CannotRun says in one line what to install."""
    if isinstance(spec, ServedEngine):
        raise CannotRun(f"engine {spec.name} is a server: it is asked over HTTP and not loaded here")
    if isinstance(spec, PluginEngine):
        engine = _plugin(spec.plugin)
    else:
        try:
            factory: Callable[[], Any] = import_module(BUILT_IN[spec.name]).engine
        except ImportError as error:
            raise CannotRun(
                f"engine {spec.name}: {error.name or error} is missing; pip install '{INSTALL[spec.name]}'"
            ) from error
        engine = factory()
    missing = engine.available()
    if missing is not None:
        raise CannotRun(f"engine {spec.name}: {missing}")
    return engine


def registered_plugins() -> tuple[str, ...]:
    """Names of the engines that installed packages register."""
    return tuple(sorted({entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}))


def _plugin(name: str) -> Any:
    entry = _entry_point(name)
    try:
        engine: Any = entry.load()()
    except Exception as error:  # a plugin is foreign code: whatever it raises becomes one line
        raise CannotRun(f"engine plugin {name!r} ({entry.value}) cannot be loaded: {_one_line(error)}") from error
    lacking = [part for part in SHAPE if not hasattr(engine, part)]
    if lacking:
        raise CannotRun(
            f"engine plugin {name!r} ({entry.value}) lacks {', '.join(lacking)}; an engine has {', '.join(SHAPE)}"
        )
    return engine


def _entry_point(name: str) -> EntryPoint:
    found = {entry.value: entry for entry in entry_points(group=ENTRY_POINT_GROUP, name=name)}
    if not found:
        known = ", ".join(registered_plugins()) or "none"
        raise CannotRun(
            f"no installed package registers an engine {name!r} under {ENTRY_POINT_GROUP!r} (registered: {known}); "
            "install the package that does"
        )
    if len(found) > 1:
        raise CannotRun(f"engine {name!r} is registered twice ({', '.join(sorted(found))}); uninstall one package")
    return next(iter(found.values()))


def _one_line(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [""])[-1]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
