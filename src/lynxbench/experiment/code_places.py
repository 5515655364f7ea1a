"""Where the code of one commit lies, and how processes are started so that they import that code and no other."""

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lynxbench.executor.declaration import Declaration
from lynxbench.model.fields import Scalar
from lynxbench.model.layers import Layer

SEARCH_PATH = "PYTHONPATH"
SOURCES = "src"


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A tree of one commit, the folder in it that stands for the folder of the command, and where it was taken from."""

    commit: str
    tree: Path
    inside: str
    """The folder of the command, from the top of the repository."""
    checkout: Path
    """The top of the repository that the command was given in."""

    @property
    def folder(self) -> Path:
        """Where its processes work."""
        return self.tree / self.inside

    def search_path(self) -> str:
        """The same places as here, but of its own tree: the command's folder, `src`, and what PYTHONPATH names."""
        named = [Path(place).absolute() for place in os.environ.get(SEARCH_PATH, "").split(os.pathsep) if place]
        ours = [self.tree / place.relative_to(self.checkout) for place in named if place.is_relative_to(self.checkout)]
        usual = [self.folder, self.folder / SOURCES, self.tree, self.tree / SOURCES]
        others = [place for place in named if not place.is_relative_to(self.checkout)]
        return os.pathsep.join(dict.fromkeys(map(str, [*ours, *filter(Path.is_dir, usual), *others])))

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Processes that are started meanwhile stand in its folder and import its code.

        Not registered, for it names places of this machine; the commit is declared instead.
        """
        before, here = os.environ.get(SEARCH_PATH), self.search_path()
        with chdir(self.folder):
            os.environ[SEARCH_PATH] = here
            try:
                yield
            finally:
                del os.environ[SEARCH_PATH]
                if before is not None:
                    os.environ[SEARCH_PATH] = before

    def declared(self, declaration: Declaration | None) -> Declaration:
        """The commit beside whatever else is declared of the machine."""
        whole = declaration or Declaration(lynxbench=1)
        commit: dict[str, Scalar | list[Scalar]] = {"commit": self.commit}
        application = {**whole.declared.get(Layer.APPLICATION, {}), **commit}
        return whole.model_copy(update={"declared": {**whole.declared, Layer.APPLICATION: application}})
