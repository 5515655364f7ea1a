"""From an experiment file to a Definition, or to one line that says the file, the line, the key and what is right."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from lynxbench.contract.loader import CONTRACT, bundled_names, read_bundled, read_contract
from lynxbench.errors import BadFile
from lynxbench.experiment.definition import Definition
from lynxbench.model.contract import Contract
from lynxbench.model.file_nodes import KeyedNode, parse_nodes, shown
from lynxbench.model.strict_file import FileForm, validate
from lynxbench.reading import read_text

EXPERIMENT = FileForm("an experiment", "`lynxbench experiment template NAME` prints one to start from", Definition)


@dataclass(frozen=True, slots=True)
class Defined:
    """A definition, and the folder that the files it names are relative to."""

    definition: Definition
    folder: Path


def read_definition(name_or_path: str | Path) -> Defined:
    """An experiment by bundled name, or from a YAML file."""
    name = str(name_or_path)
    known = bundled_experiments()
    if name in known:
        return Defined(parse_definition(read_bundled_experiment(name), f"{name}.yaml", Path()), Path())
    missing = f"no such file, and no bundled experiment of this name; bundled are {', '.join(known)}"
    folder = Path(name).parent
    return Defined(parse_definition(read_text(name, EXPERIMENT.noun, missing=missing), name, folder), folder)


def bundled_experiments() -> tuple[str, ...]:
    """The experiments that come with lynxbench."""
    folder = resources.files("lynxbench.experiment") / "bundled"
    return tuple(sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")))


def read_bundled_experiment(name: str) -> str:
    """A bundled experiment as it was written, comments included."""
    return (resources.files("lynxbench.experiment") / "bundled" / f"{name}.yaml").read_text(encoding="utf-8")


def parse_definition(text: str, file: str, folder: Path) -> Definition:
    """A definition from YAML text; its contract is written inside it, or named."""
    root = parse_nodes(text, file, EXPERIMENT.noun, EXPERIMENT.begin)
    assert root.entries is not None
    entry = root.entries.get("contract")
    contract = {} if entry is None else {"contract": _contract(entry, file, folder).canonical()}
    return validate(root, file, EXPERIMENT, instead=contract)


def _contract(entry: KeyedNode, file: str, folder: Path) -> Contract:
    if entry.node.entries is not None:
        return validate(entry.node, file, CONTRACT, "contract")
    name = entry.node.value
    if not isinstance(name, str):
        problem = f"must be a name, a file or a mapping, not {entry.node.kind}"
    elif name in bundled_names():
        return read_bundled(name)
    elif (folder / name).is_file():
        return read_contract(folder / name)
    else:
        known = ", ".join(bundled_names())
        problem = f"{shown(name)} is no file beside the experiment and no bundled contract; bundled are {known}"
    raise BadFile(problem, file=file, line=entry.line, key="contract")
