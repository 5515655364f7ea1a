"""Which adapter executes a contract's engine. Nothing heavy is imported before an engine is asked for."""

from importlib.metadata import EntryPoint, entry_points

from lynxbench.errors import CannotRun
from lynxbench.load.engine_session import Engine
from lynxbench.model import contract
from lynxbench.model.serving import ServedEngine

ENTRY_POINT_GROUP = "lynxbench.engines"
"""A package registers `name = "module:engine"` here; `engine()` returns an object shaped like load's Engine."""

BUILT_IN: dict[str, str] = {
    "torch": "lynxbench.engines.torch:TorchAdapter",
    "onnx": "lynxbench.engines.onnx.adapter:OnnxRuntimeEngine",
    "callable": "lynxbench.engines.callable:CallablePythonEngine",
}
SHAPE = ("name", "available", "estimate", "open")


def load_engine(spec: contract.Engine) -> Engine:
    """The engine that a contract names; CannotRun says in one line what to install."""
    if isinstance(spec, ServedEngine):
        raise CannotRun(f"engine {spec.name} is a server: it is asked over HTTP and not loaded here")
    if isinstance(spec, contract.PluginEngine):
        engine = _load_plugin(spec.plugin)
    else:
        try:
            engine = EntryPoint(spec.name, BUILT_IN[spec.name], ENTRY_POINT_GROUP).load()()
        except ImportError as error:
            missing = error.name or error
            raise CannotRun(
                f"engine {spec.name}: {missing} is missing; pip install 'lynxbench[{spec.name}]'"
            ) from error
    problem = engine.available()
    if problem is not None:
        raise CannotRun(f"engine {spec.name}: {problem}")
    return engine


def registered_plugins() -> tuple[str, ...]:
    """Names of the engines that installed packages register."""
    return tuple(sorted({entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}))


def _load_plugin(name: str) -> Engine:
    entry = _entry_point(name)
    try:
        engine: Engine = entry.load()()
    except Exception as error:  # a plugin is foreign code: whatever it raises becomes one line
        raise CannotRun(f"engine plugin {name!r} ({entry.value}) cannot be loaded: {_last_line(error)}") from error
    lacking = [part for part in SHAPE if not hasattr(engine, part)]
    if lacking:
        raise CannotRun(
            f"engine plugin {name!r} ({entry.value}) lacks {', '.join(lacking)}; an engine has {', '.join(SHAPE)}"
        )
    return engine


def _entry_point(name: str) -> EntryPoint:
    entries = {entry.value: entry for entry in entry_points(group=ENTRY_POINT_GROUP, name=name)}
    if not entries:
        known = ", ".join(registered_plugins()) or "none"
        raise CannotRun(
            f"no installed package registers an engine {name!r} under {ENTRY_POINT_GROUP!r} (registered: {known}); "
            "install the package that does"
        )
    if len(entries) > 1:
        raise CannotRun(f"engine {name!r} is registered twice ({', '.join(sorted(entries))}); uninstall one package")
    return next(iter(entries.values()))


def _last_line(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [""])[-1]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
