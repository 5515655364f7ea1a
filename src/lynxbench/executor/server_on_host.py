"""A server's own process on this host, found by the port it listens on: command, libraries, packages, group, GPUs."""

import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil
from pydantic import JsonValue

from lynxbench.executor.confinement import read_cpu_limit, read_memory_limit
from lynxbench.executor.host import KNOWN, Host, explain, format_cpu_list
from lynxbench.executor.mapped import MappedLibrary, generated_folders, name_libraries, parse_maps
from lynxbench.executor.nvidia import load_nvml, opened
from lynxbench.executor.process import describe_cuda, hash_libraries
from lynxbench.executor.python_packages import find_distributions
from lynxbench.executor.system import select_environment
from lynxbench.model.executor import Field, Tier, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.secrets import WITHHELD, option_looks_secret, value_is_credential

_PACKAGES = re.compile(r"^(.*/(?:site|dist)-packages)/")
_OPTION = re.compile(r"^--?([A-Za-z][\w-]*)(=.*)?$")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The process that listens, and those it started."""

    pid: int
    started: float
    tree: tuple[int, ...]


def find_server_process(port: int) -> ServerProcess | None:
    """Who listens on a port of this host; None where this user may not know."""
    try:
        listening = [c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN and c.laddr]
    except (psutil.Error, OSError):
        return None
    pids = sorted({c.pid for c in listening if c.pid and getattr(c.laddr, "port", None) == port})
    if not pids:
        return None
    try:
        # Workers of one server share its socket: the one that started the others speaks for it.
        process = min((psutil.Process(pid) for pid in pids), key=lambda p: (p.create_time(), p.pid))
        tree = (process.pid, *sorted(child.pid for child in process.children(recursive=True)))
        return ServerProcess(process.pid, process.create_time(), tuple(dict.fromkeys((*tree, *pids))))
    except psutil.Error:
        return None


def capture_server_process(process: ServerProcess, host: Host) -> dict[Layer, dict[str, Field]]:
    """The process as the kernel shows it."""
    inside = ProcessHost(host.root, host.environ, host.affinity, process.pid)
    limits = {**read_cpu_limit(inside), **read_memory_limit(inside)}
    layers: dict[Layer, dict[str, Field]] = {
        Layer.SERVING: {
            "server_command": _command(process.pid),
            "server_processes": measured(len(process.tree), "process tree", Tier.STATE),
            "server_process_started": measured(round(process.started, 2), "process start", Tier.STATE),
        },
        Layer.SYSTEM: {f"server_{name}": field for name, field in limits.items()} | _confinement(process.pid),
        Layer.ACCELERATOR: {"server_gpus": _gpus(process)},
    }
    libraries = _libraries(process, host)
    if isinstance(libraries, str):
        layers[Layer.RUNTIME] = {"server_libraries": unreadable(libraries)}
    else:
        bundled = [library for library in libraries if library.origin == "bundled"]
        system = [library for library in libraries if library.origin == "system"]
        source = "/proc/PID/maps of the server's processes"
        layers[Layer.RUNTIME] = {
            "server_libraries": measured(hash_libraries(bundled, host), f"{source}, SHA-256 of each file"),
            "server_cuda_libraries": measured(describe_cuda(libraries), source),
        }
        mapped = measured(hash_libraries(system, host), f"{source}, SHA-256 of each file")
        layers[Layer.SYSTEM]["server_mapped_libraries"] = mapped
        layers[Layer.FRAMEWORK] = _packages(libraries)
    return layers


@dataclass(frozen=True, slots=True)
class ProcessHost(Host):
    """The machine with /proc/self meaning another process."""

    pid: int = 0

    def path(self, path: str) -> Path:
        """Where an absolute path of the machine lies."""
        own = path.startswith("/proc/self/")
        return self.root / (f"proc/{self.pid}{path.removeprefix('/proc/self')}" if own else path.lstrip("/"))


def read_server_command(port: int) -> tuple[str, ...]:
    """The words that whoever listens on a port of this host was started with; none where they cannot be read."""
    process = find_server_process(port)
    try:
        return () if process is None else tuple(psutil.Process(process.pid).cmdline())
    except psutil.Error:
        return ()


def _command(pid: int) -> Field:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error as problem:
        return unreadable(explain(problem))
    return measured([*redact_command(words)], "command line of the listening process; secrets withheld")


def redact_command(words: list[str]) -> list[str]:
    """A command line without secrets: values of options whose names speak of keys, and what looks like a credential."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        option = _OPTION.match(word)
        secret = option is not None and option_looks_secret(option.group(1))
        if option is not None and secret and option.group(2) is not None:
            shown.append(f"{word.partition('=')[0]}={WITHHELD}")
        elif (hide_next and option is None) or (not secret and value_is_credential(word)):
            shown.append(WITHHELD)
        else:
            shown.append(word)
        hide_next = option is not None and secret and option.group(2) is None
    return shown


def _libraries(process: ServerProcess, host: Host) -> list[MappedLibrary] | str:
    paths: dict[str, None] = {}
    problem = ""
    for pid in process.tree:
        try:
            paths.update(dict.fromkeys(parse_maps(host.text(f"/proc/{pid}/maps"))))
        except OSError as error:
            problem = explain(error, f"/proc/{pid}/maps")
    if not paths:
        return problem or "nothing is mapped"
    folders = {match.group(1) for path in paths if (match := _PACKAGES.match(path))}
    ordered = tuple(sorted(folders, key=len, reverse=True))
    return name_libraries(paths, ordered, generated_folders(host.environ))


def _packages(libraries: list[MappedLibrary]) -> dict[str, Field]:
    """Frameworks installed where the server's own libraries come from."""
    folders = sorted({match.group(1) for library in libraries if (match := _PACKAGES.match(library.path))})
    if not folders:
        return {"server_frameworks": unreadable("no Python package is mapped into the server's processes")}
    wanted = {*KNOWN["packages"]["frameworks"], *KNOWN["packages"]["servers"]}
    installed = find_distributions(metadata.distributions(path=folders))
    versions: dict[str, JsonValue] = {name: installed[name].version for name in sorted(wanted & installed.keys())}
    return {"server_frameworks": measured(versions, "package metadata beside the server's libraries")}


def _confinement(pid: int) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    try:
        process = psutil.Process(pid)
        fields["server_affinity"] = measured(
            format_cpu_list(process.cpu_affinity() or []), "sched_getaffinity of the server"
        )
        variables = select_environment(process.environ()).variables
        fields["server_environment"] = measured(variables, "allow-listed environment variables of the server")
    except (psutil.Error, OSError) as problem:
        fields["server_environment"] = unreadable(explain(problem))
    return fields


def _gpus(process: ServerProcess) -> Field:
    """Which GPUs the server's processes use."""
    try:
        nvml = load_nvml()
        with opened(nvml) as devices:
            used: list[JsonValue] = [
                index
                for index, device in enumerate(devices)
                if {p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(device)} & set(process.tree)
            ]
        return measured(used, "NVML, compute processes")
    except Exception as problem:
        return unreadable(explain(problem))
