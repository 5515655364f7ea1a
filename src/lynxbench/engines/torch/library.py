"""Model classes of transformers, imported one by one and as cheaply as the library allows.

Every restart is a fresh process, so import time is paid again and again. Importing one modeling file instead of the
automatic classes, and telling the library that scipy and torch.distributed are absent (they serve models and modes this
engine never uses), takes 6.4 s instead of 8.0 s on two Neoverse-N1 cores. torchao is hidden from it too: the engine
asks it itself, where a precision needs it. The rest is torch itself (2 s), the library's scan of its own 539 model
folders (1 s) and torch._dynamo, which it imports unconditionally (1.5 s).
"""

import os
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lynxbench.errors import CannotRun
from lynxbench.model.workload import LANGUAGE_TASKS, Task
from lynxbench.workload.presets import ARCHITECTURES

UNUSED = ("is_scipy_available", "is_torch_distributed_available", "is_torchao_available")
"""Availability checks of transformers that gate imports nothing here needs."""


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of one architecture: what their names begin with, and those with a head for a task."""

    prefix: str
    generate: str | None = None
    classify: str | None = None

    def of(self, task: Task) -> str | None:
        """The class for a task; training uses whichever has a loss."""
        if task in LANGUAGE_TASKS:
            return self.generate
        by_task = {Task.EMBED: f"{self.prefix}Model", Task.CLASSIFY: self.classify}
        return by_task.get(task, self.generate or self.classify)


KNOWN: dict[str, Classes] = {
    name: Classes(keys["prefix"], keys.get("generate"), keys.get("classify")) for name, keys in ARCHITECTURES.items()
}
AUTOMATIC: dict[Task, str] = {
    **dict.fromkeys((*LANGUAGE_TASKS, Task.TRAIN_STEP), "AutoModelForCausalLM"),
    Task.EMBED: "AutoModel",
    Task.CLASSIFY: "AutoModelForSequenceClassification",
}


def quiet_library() -> Any:
    """transformers with its progress bars and advice off and its unused imports left out."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    utilities = import_module("transformers.utils")
    for module in (utilities, import_module("transformers.utils.import_utils")):
        for check in UNUSED:
            if hasattr(module, check):
                setattr(module, check, _absent)  # for the life of this process: half a change would be worse than none
    utilities.logging.set_verbosity_error()
    utilities.logging.disable_progress_bar()
    return utilities


def _absent(*_: object, **__: object) -> bool:
    return False


def import_model_class(model_type: str, task: Task) -> Any:
    """The class that does a task for an architecture; CannotRun where the architecture has none."""
    quiet_library()
    known = KNOWN.get(model_type)
    if known is None:
        return getattr(import_module("transformers"), AUTOMATIC[task])
    name = known.of(task)
    if name is None:
        raise CannotRun(f"workload.task: a {model_type} model cannot do {task}")
    return getattr(import_module(f"transformers.models.{model_type}.modeling_{model_type}"), name)


def import_config_class(model_type: str) -> Any:
    """The configuration class of a known architecture."""
    quiet_library()
    module = import_module(f"transformers.models.{model_type}.configuration_{model_type}")
    return getattr(module, f"{KNOWN[model_type].prefix}Config")
