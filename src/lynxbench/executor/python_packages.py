"""The framework layer as it lies on disk: Python, every installed distribution, and frameworks' own build stamps."""

import ast
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pydantic import JsonValue

from lynxbench.executor.host import KNOWN, Host, Probe
from lynxbench.model.canonical import content_id
from lynxbench.model.executor import Field, measured
from lynxbench.model.layers import Layer

_ONNXRUNTIME_STAMP = (
    "onnxruntime/capi/build_and_package_info.py",
    {"cuda_version": "cuda", "package_name": "package"},
)
BUILD_STAMPS: dict[str, tuple[str, dict[str, str]]] = {
    "torch": ("torch/version.py", {"cuda": "cuda", "git_version": "git", "hip": "hip", "debug": "debug"}),
    "onnxruntime": _ONNXRUNTIME_STAMP,
    "onnxruntime-gpu": _ONNXRUNTIME_STAMP,
    "vllm": ("vllm/_version.py", {"__commit_id__": "git", "commit_id": "git"}),
    "jaxlib": ("jaxlib/version.py", {"_git_hash": "git"}),
}
"""Files that carry how a framework was built, readable without importing it."""


def read_python(_host: Host) -> dict[str, Field]:
    """The interpreter by what it is, not where it lies."""
    return {
        "python_version": measured(platform.python_version(), "platform"),
        "python_build": measured(" ".join(platform.python_build()), "platform"),
        "python_compiler": measured(platform.python_compiler(), "platform"),
        "python_implementation": measured(platform.python_implementation(), "platform"),
        "python_gil": measured(not sysconfig.get_config_var("Py_GIL_DISABLED"), "sysconfig"),
        "python_optimised": measured(
            "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""), "sysconfig"
        ),
        "python_debug": measured(hasattr(sys, "gettotalrefcount"), "sys"),
    }


def read_distributions(_host: Host) -> dict[str, Field]:
    """Every installed distribution, and the frameworks among them with their build stamps."""
    installed = find_distributions(metadata.distributions(path=find_installations(sys.path)))
    versions: dict[str, JsonValue] = {name: package.version for name, package in sorted(installed.items())}
    fields = {
        "distributions": measured(versions, "importlib.metadata"),
        "distributions_sha256": measured(content_id(versions), "SHA-256 over distributions"),
    }
    for name in KNOWN["packages"]["frameworks"]:
        if name in installed:
            fields[name.replace("-", "_")] = measured(installed[name].version, "importlib.metadata")
            if name in BUILD_STAMPS:
                fields.update(_read_stamp(name, installed[name]))
    return fields


def capture_packages() -> dict[str, Field]:
    """Interpreter and distributions of this very process, where it does not run in the harness's environment."""
    host = Host()
    return read_python(host) | read_distributions(host)


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution with the version its own file states."""

    version: str | None
    distribution: metadata.Distribution


def find_installations(path: Sequence[str]) -> list[str]:
    """The folders of an import path that something was installed into.

    A library may put copies of others that it carries inside itself on the path when it is imported (setuptools does):
    they are its own affair, and what is installed does not change by what a process has imported by now.
    """

    def is_inside_a_package(folder: Path) -> bool:
        return (folder.parent / "__init__.py").is_file() and any(one in path for one in map(str, folder.parents))

    return [folder for folder in path if not is_inside_a_package(Path(folder))]


def find_distributions(distributions: Iterable[metadata.Distribution]) -> dict[str, Installed]:
    """Distributions by normalised name; the first on the path wins, as it does for imports."""
    chosen: dict[str, Installed] = {}
    for distribution in distributions:
        headers = parse_headers(distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "")
        name = re.sub(r"[-_.]+", "-", headers.get("name", "")).lower()
        if name:
            chosen.setdefault(name, Installed(headers.get("version"), distribution))
    return chosen


def parse_headers(text: str) -> dict[str, str]:
    """One-line headers of a distribution's metadata by lower-case name, the first of each.

    The standard library parses the whole file as a mail, long description included, once for every value asked: with
    some hundred distributions that was most of what capturing a machine took.
    """
    headers: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            break  # the description follows
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            headers.setdefault(name.strip().lower(), value.strip())
    return headers


def _read_stamp(name: str, installed: Installed) -> dict[str, Field]:
    file, fields = BUILD_STAMPS[name]
    try:
        constants = parse_constants(Path(str(installed.distribution.locate_file(file))).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    prefix = name.replace("-", "_")
    stamps = [(field, constants[constant]) for constant, field in fields.items() if constant in constants]
    return {f"{prefix}_{field}": measured(value, file) for field, value in stamps}


def parse_constants(source: str) -> dict[str, JsonValue]:
    """Module-level constants of a Python file, without running it."""
    constants: dict[str, JsonValue] = {}
    for node in ast.parse(source).body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, ast.Constant):
            continue
        value = node.value.value
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if value is None or isinstance(value, (str, int, float, bool)):
            constants.update({target.id: value for target in targets if isinstance(target, ast.Name)})
    return constants


PROBES: tuple[Probe, ...] = (
    Probe(Layer.FRAMEWORK, read_python, ("python_version", "python_build")),
    Probe(Layer.FRAMEWORK, read_distributions, ("distributions", "distributions_sha256")),
)
