"""Answers that do not depend on the prompts: then a stub was measured, a cache, or weights that prefer nothing."""

from itertools import pairwise
from typing import Any, Final

from lynxbench.measure.validity import Doubt
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import LoadFigures

MOST_ALIKE: Final = 0.95
"""Nearly all: one prompt in twenty may have another answer, such as one that ended early."""
FEWEST_PROMPTS: Final = 10
"""Fewer different prompts may have one answer."""
LOAD_FORMAT: Final = "load-format"
DUMMY: Final = "dummy"
"""vLLM and SGLang make weights up where they are told so: a step then takes as long, and says nothing."""
DEMONSTRATION: Final = ("lynxbench", "demo-server")
"""A result against the bundled server says itself that no model was asked."""


def judge_alike(load: LoadFigures, executor: Executor) -> list[Doubt]:
    """A doubt where answers to different prompts are alike; none where the server is started to make them up.

    The report says how many were alike in either case.
    """
    alike = load.tokens.alike
    if alike is None or alike.compared < FEWEST_PROMPTS or alike.share < MOST_ALIKE or is_made_up(executor):
        return []
    return [
        Doubt(
            f"the answers do not depend on the prompts: {alike.alike} of {alike.compared} different prompts were "
            "answered alike to the letter, by a stub, a cache of answers or weights that prefer nothing; ask the "
            "server by hand, and name its launch arguments in engine.launch where its weights are made up on purpose"
        )
    ]


def is_made_up(executor: Executor) -> bool:
    """Whether the server's launch arguments, as its process has them or as the contract declares them, say so."""
    serving = executor.layers.get(Layer.SERVING, {})
    return any(_says_so(serving[name].value) for name in ("server_command", "server_launch") if name in serving)


def _says_so(words: Any) -> bool:
    if not isinstance(words, list):
        return False
    spelled = [part for word in words for part in str(word).split("=", 1)]
    options = [word.lstrip("-").replace("_", "-") for word in spelled]
    programs = [str(word).rpartition("/")[2] for word in words]
    dummy = any(one == LOAD_FORMAT and other == DUMMY for one, other in zip(options, spelled[1:], strict=False))
    return dummy or DEMONSTRATION in pairwise(programs)
