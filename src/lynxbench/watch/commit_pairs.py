"""The code of two commits under one contract, measured in pairs; and whether it really is their code that runs."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lynxbench.errors import Refused
from lynxbench.experiment.code_places import CodePlace
from lynxbench.experiment.pairing import run_paired
from lynxbench.experiment.visiting import Setting, Visits
from lynxbench.model.comparison import Comparison
from lynxbench.model.contract import Contract
from lynxbench.model.workload import CallableModel
from lynxbench.record.comparing_results import compare_sides, side_of
from lynxbench.run.loaded_code import loaded_files
from lynxbench.run.run_outcome import Progress


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Where a measured function stands in its repository."""

    file: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True)
class CommitPairs:
    """Measures commits against each other."""

    visits: Visits
    progress: Progress
    rng: np.random.Generator
    tell: Callable[[str], None]

    def compare(self, a: CodePlace, b: CodePlace, contract: Contract) -> Comparison:
        """The code of B held against that of A; HalfCannotRun says which of them gives nothing."""
        pairs = contract.protocol.restarts
        paired = run_paired(
            Setting(contract, place=a),
            Setting(contract, place=b),
            self.visits,
            self.progress,
            self.rng,
            lambda pair, halves: self.tell(f"  pair {pair + 1}/{pairs}: {halves}"),
        )
        sides = [
            side_of(finished.result, folder=finished.folder, name=place.commit[:10])
            for finished, place in ((paired.a, a), (paired.b, b))
        ]
        return compare_sides(sides[0], sides[1], order=paired.order)


def find_function(contract: Contract, place: CodePlace, packages: frozenset[str]) -> FunctionPlace:
    """Where the contract's function stands in a commit; OwnCodeFailed where that commit cannot import it.

    Refused where a module of the repository would come from elsewhere: both sides would measure the same code, and
    nothing could ever regress.
    """
    model = contract.workload.model
    if not isinstance(model, CallableModel):
        return FunctionPlace()
    with place.standing():
        files = loaded_files(model.target)
    for module, file in files.items():
        ours = module.partition(".")[0] in packages or file.is_relative_to(place.checkout)
        if ours and not file.is_relative_to(place.tree):
            raise Refused(
                f"{model.target}: {module} is imported from {file}, not from the commit that is measured; put the "
                "folder of the repository that holds it on PYTHONPATH, or take the installed copy away"
            )
    name, _, path = model.target.partition(":")
    home = files.get(name)
    if home is None or not home.is_relative_to(place.tree):
        return FunctionPlace()
    return FunctionPlace(home.relative_to(place.tree).as_posix(), _line_of(home, path))


def _line_of(file: Path, path: str) -> int:
    """Where a function or class is defined; the first line where it is made otherwise."""
    body: list[ast.stmt] = ast.parse(file.read_bytes()).body
    line = 1
    for part in path.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        if found is None:
            return line
        line, body = found.lineno, found.body
    return line
