"""How `import lynxbench` stays instant: public names are loaded when they are asked for.

Four of them (`run`, `compare`, `load`, `attribute`) are rooms as well. Importing anything of such a room puts it in the
place of the name, so those rooms can be called: `lynxbench.run(contract)` is `lynxbench.api.run(contract)`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inspect import Signature

API = "lynxbench.api"
ROOMS = frozenset({"attribute", "compare", "load", "run"})


class CallableRoom(ModuleType):
    """A room whose name is a verb of the public surface; calling it does what the verb says."""

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(self._verb)

    @property
    def _verb(self) -> Any:
        return getattr(import_module(API), self.__name__.rpartition(".")[2])

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """What the verb does."""
        return self._verb(*arguments, **named)


class PublicPackage(ModuleType):
    """The package itself: a room that is imported becomes callable, other names come from the public surface."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in ROOMS and isinstance(value, ModuleType):
            value.__class__ = CallableRoom
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ROOMS:
            return import_module(f"{self.__name__}.{name}")
        if name in self.__all__:
            return getattr(import_module(API), name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__all__})
