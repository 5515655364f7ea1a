"""A function of the user, `module:function`, called once per iteration.

The function takes no argument or the iteration's index. It returns None (one unit of work), an int (that many units) or
anything else (one unit; arrays and numbers are compared for accuracy). The object may carry, all optional:

    unit              what one unit is called ("image"); "call" without it
    setup(...)        runs once before the first call, outside the timed window; it may take any of the keywords
                      precision, batch, seed, threads, and gets those it names
    outputs()         answers on fixed inputs, for accuracy: a number, an array, or a sequence of arrays
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import platform
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from pydantic import JsonValue

from lynxbench.engines.host_ceilings import budget_within, measure_matmul, measure_streams
from lynxbench.engines.python_resources import account, write_accounts
from lynxbench.errors import CannotRun, OwnCodeFailed
from lynxbench.model.attribution import Ceiling
from lynxbench.model.job import ExecutedAs, Job, Skip
from lynxbench.model.precision import Native, Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import CallableModel

OUTPUT_CALLS = 8
"""Fixed inputs for accuracy are the first indices; a handful shows a precision's error without long calls."""
NUMERIC_KINDS = "biufc"

Function = Callable[..., object]


class _Cuda(Protocol):
    def synchronize(self) -> None: ...
    def max_memory_allocated(self) -> int: ...


class CallablePythonEngine:
    """Runs Python functions in this process."""

    name = "callable"

    def available(self) -> str | None:
        """Python is always there."""
        return None

    def estimate(self, job: Job) -> Skip | None:
        """Nothing is known about a foreign function before it runs."""
        return None

    def open(self, job: Job) -> CallableSession:
        """Import the function and run its setup."""
        model = job.contract.workload.model
        if not isinstance(model, CallableModel):
            raise CannotRun(f"engine callable needs model source callable; the contract has {model.source}")
        return CallableSession(model.target, resolve(model.target), job)


def resolve(target: str) -> Function:
    """The object behind `module:function`, looked up with the current directory on the path."""
    module_name, _, path = target.partition(":")
    module = _import(module_name, target)
    function: Any = module
    for part in path.split("."):
        if not hasattr(function, part):
            known = ", ".join(sorted(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))[:8])
            raise OwnCodeFailed(f"{target}: {module_name} has no {path!r}; it has {known or 'nothing callable'}")
        function = getattr(function, part)
    if not callable(function):
        raise OwnCodeFailed(f"{target} is {type(function).__name__}, not a function")
    called = function if inspect.isroutine(function) else type(function).__call__
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise OwnCodeFailed(f"{target} is asynchronous, so calling it does no work; wrap it in asyncio.run")
    if inspect.isgeneratorfunction(called):
        raise OwnCodeFailed(f"{target} is a generator, so calling it does no work; return its result, do not yield")
    return cast(Function, function)


class CallableSession:
    """One function, thinly wrapped: a step is the call, one type check and a return."""

    step: Callable[[int], int]

    def __init__(self, target: str, function: Function, job: Job) -> None:
        self.unit = str(getattr(function, "unit", "call"))
        self.marks: list[int] = []
        self._target = target
        self._function = function
        self._threads = job.threads
        self._precision = job.precision
        self._ceiling_s = budget_within(job.contract.protocol.limit_s)
        self._torch_formats: frozenset[str] | None = None
        self._takes_precision = self._set_up(job)
        self._call = _with_index(function, target)
        self.step = self._make_step(None)

    def compile(self) -> None:
        """The first call: what happens once (caches, just-in-time compilation, device start) is marked apart."""
        self.step(0)
        cuda = _active_cuda()
        if cuda is not None:
            self.step = self._make_step(cuda.synchronize)
            self.step(0)

    def facts(self) -> dict[str, JsonValue]:
        """The function, its source's hash, and the numeric library underneath."""
        facts: dict[str, JsonValue] = {
            "application.callable": self._target,
            "application.callable_source_sha256": _source_sha256(self._function),
            "application.told_precision": self._takes_precision,
            "application.unit": self.unit,
            "framework.python": platform.python_version(),
            "framework.numpy": np.__version__,
            "runtime.numpy_blas": _blas(),
        }
        torch = sys.modules.get("torch")
        if torch is not None:
            facts["framework.torch"] = str(torch.__version__)
        return facts

    def executed(self) -> ExecutedAs:
        """A foreign function's kernels are not seen: what it was told is all that is known."""
        precision = f"was told {self._precision}" if self._takes_precision else "was not told a precision"
        how = f"{self._target} {precision}; its kernels are its own"
        return ExecutedAs(native=Native.UNKNOWN, how=how, toolchain="python")

    def outputs(self) -> Outputs | None:
        """The function's own `outputs()`, or its answers to the first indices; None where they are no numbers."""
        own = getattr(self._function, "outputs", None)
        if callable(own):
            values, inputs = _as_array(self._guarded(own)), f"fixed inputs of {self._target}.outputs()"
            if values is None:
                raise OwnCodeFailed(f"{self._target}: outputs() returned no numbers; return arrays of one shape")
        else:
            answers = [self._guarded(self._call, index) for index in range(OUTPUT_CALLS)]
            counts_only = all(answer is None or answer.__class__ is int for answer in answers)
            values = None if counts_only else _as_array(answers)
            inputs = f"indices 0 to {OUTPUT_CALLS - 1} of {self._target}"
        return None if values is None else Outputs(kind="values", arrays={"values": values}, inputs=inputs)

    def profile(self, steps: int, into: Path) -> Path | None:
        """A PyTorch trace where the function runs PyTorch operators; otherwise accounts of the thread's time."""
        into.mkdir(parents=True, exist_ok=True)
        accounts = [account(self.step, index) for index in range(steps)]
        resources = write_accounts(accounts, self._target, self._threads, into / "resource.json")
        return self._torch_trace(steps, into) or resources

    def _torch_trace(self, steps: int, into: Path) -> Path | None:
        if "torch" not in sys.modules:
            return None
        import torch

        from lynxbench.engines.torch.profiling import product_formats, profile_steps, write_trace
        from lynxbench.engines.torch.value_flow import record_dataflow

        device = torch.device("cpu" if _active_cuda() is None else "cuda")
        profiler = profile_steps(self.step, steps, device)
        if not any(event.name.startswith("aten::") for event in profiler.events()):
            return None  # PyTorch is loaded, but the function runs something else
        self._torch_formats = product_formats(profiler)
        return write_trace(profiler, into, record_dataflow(self._call, device, first=steps))

    def ceilings(self, known: tuple[Ceiling, ...] = ()) -> tuple[Ceiling, ...]:
        """Of PyTorch, in the formats and on the device that the function used, where its operators ran; else of numpy.

        numpy's are the matrix product in both float widths, and the memory's copy and read rate.
        """
        if self._torch_formats is not None:
            import torch

            from lynxbench.engines.torch.ceilings import measure_used_ceilings

            device = torch.device("cpu" if _active_cuda() is None else "cuda")
            return measure_used_ceilings(self._precision, self._torch_formats, device, known)
        return (
            measure_matmul("float32", Precision.FP32, self._threads, self._ceiling_s),
            measure_matmul("float64", None, self._threads, self._ceiling_s),
            *measure_streams(self._threads, self._ceiling_s),
        )

    def device_memory_peak_bytes(self) -> int | None:
        """What PyTorch allocated on a GPU, where the function used one."""
        cuda = _active_cuda()
        return None if cuda is None else int(cuda.max_memory_allocated())

    def close(self) -> None:
        """Run the function's own `close()`, where it has one."""
        own = getattr(self._function, "close", None)
        if callable(own):
            self._guarded(own)

    def _set_up(self, job: Job) -> bool:
        own = getattr(self._function, "setup", None)
        offered: dict[str, object] = {
            "precision": job.precision.value,
            "batch": job.contract.workload.batch,
            "seed": job.contract.workload.seed,
            "threads": job.threads,
        }
        wanted = _parameters(own) if callable(own) else {}
        unknown = [
            name
            for name, parameter in wanted.items()
            if name not in offered and parameter.default is parameter.empty and parameter.kind not in _VARIADIC
        ]
        if unknown:
            raise OwnCodeFailed(f"{self._target}: setup wants {', '.join(unknown)}; it may have {', '.join(offered)}")
        takes_precision = "precision" in wanted
        if len(job.contract.workload.precisions) > 1 and not takes_precision:
            raise OwnCodeFailed(
                f"{self._target} is not told its precision, so {len(job.contract.workload.precisions)} precisions "
                "would measure the same thing; list one, or give the function a setup(precision)"
            )
        if callable(own):
            self._guarded(lambda: own(**{name: value for name, value in offered.items() if name in wanted}))
        return takes_precision

    def _make_step(self, synchronize: Callable[[], None] | None) -> Callable[[int], int]:
        # A closure over locals: no attribute lookups between the clock's two readings.
        call, target = self._call, self._target

        def step(index: int) -> int:
            try:
                value = call(index)
            except (Exception, SystemExit) as error:
                raise user_error(target, error) from error
            return value if value.__class__ is int and value >= 0 else _units(value, target)

        def synchronized_step(index: int) -> int:
            units = step(index)
            synchronize()  # type: ignore[misc]
            return units

        return step if synchronize is None else synchronized_step

    def _guarded(self, function: Function, *arguments: object) -> object:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise user_error(self._target, error) from error


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def user_error(target: str, error: BaseException) -> OwnCodeFailed:
    """The user's error in one line: where in the user's code, and what it said last."""
    frames = traceback.extract_tb(error.__traceback__)
    foreign = (str(Path(__file__).parent), sysconfig.get_path("stdlib"), "<")
    own = [f for f in frames if not f.filename.startswith(foreign) and "site-packages" not in f.filename]
    places = own or list(frames)
    where = f" at {places[-1].filename}:{places[-1].lineno}" if places else ""
    message = traceback.format_exception_only(type(error), error)[-1].strip()
    return OwnCodeFailed(f"{target} failed{where}: {message}")


def _import(name: str, target: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise OwnCodeFailed(
                f"{target}: no module {error.name!r} in the current directory or among the installed packages"
            ) from error
        raise user_error(target, error) from error
    except (Exception, SystemExit) as error:
        raise user_error(target, error) from error


def module_files(target: str) -> tuple[Path, ...]:
    """The files that importing `target` would execute, outermost package first, as `resolve` looks for them.

    Found without executing any of them; () where there is no such module, or no file behind it.
    """
    names = target.partition(":")[0].split(".")
    files: list[Path] = []
    places = [str(Path.cwd()), *sys.path]
    for depth in range(1, len(names) + 1):
        spec = _spec_among(".".join(names[:depth]), places) or (_spec_of_top(names[0]) if depth == 1 else None)
        if spec is None:
            return ()
        files += [Path(spec.origin).resolve()] if spec.origin is not None and spec.has_location else []
        places = list(spec.submodule_search_locations or ())
    return tuple(files)


def _spec_among(name: str, places: list[str]) -> ModuleSpec | None:
    """The first module of that name in these folders; a folder without code counts where no module is found."""
    portions: list[str] = []
    for place in places:
        finder = pkgutil.get_importer(place)
        spec = None if finder is None else finder.find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        portions += [] if spec is None else spec.submodule_search_locations or []
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace if portions else None


def _spec_of_top(name: str) -> ModuleSpec | None:
    """What other finders know: packages that are installed in place."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _parameters(function: Function) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return {}


def _with_index(function: Function, target: str) -> Callable[[int], object]:
    parameters = _parameters(function).values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]
    keyword_only = [p.name for p in parameters if p.name in needed and p.kind not in positional]
    if len(needed) > 1 or keyword_only:
        raise OwnCodeFailed(f"{target} needs {', '.join(needed)}; it must take no argument, or the iteration's index")
    if needed or any(p.name == "index" and p.kind in positional for p in parameters):
        return function
    return lambda index: function()


def _units(value: object, target: str) -> int:
    if value.__class__ is int:
        raise OwnCodeFailed(f"{target} returned {value} units of work; return a number of units from 0 up, or nothing")
    return 1


def _as_array(value: object) -> np.ndarray[Any, np.dtype[np.generic]] | None:
    try:
        array = np.stack([_plain(v) for v in value]) if isinstance(value, (list, tuple)) else _plain(value)
    except (TypeError, ValueError):
        return None
    return array if array.dtype.kind in NUMERIC_KINDS and array.size else None


def _plain(value: object) -> np.ndarray[Any, np.dtype[np.generic]]:
    detach = getattr(value, "detach", None)  # a torch tensor, maybe on a device and maybe in a format numpy lacks
    if detach is not None:
        tensor = detach().cpu()
        return np.asarray((tensor.float() if tensor.is_floating_point() else tensor).numpy())
    return np.asarray(value)


def _active_cuda() -> _Cuda | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return cast(_Cuda, torch.cuda)


def _source_sha256(function: Function) -> str | None:
    module = sys.modules.get(getattr(function, "__module__", None) or type(function).__module__)
    file = getattr(module, "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else None


def _blas() -> str:
    try:
        known = cast(dict[str, Any], np.show_config(mode="dicts"))["Build Dependencies"]["blas"]
        return f"{known['name']} {known['version']}"
    except (KeyError, TypeError):
        return "unknown"
