"""Whether answers depend on the prompts, by what was kept of a few; the processes that send import none of this."""

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from lynxbench.model.load_figures import AlikeAnswers
from lynxbench.model.samples import Int64

HANDFUL_TOKENS: Final = 16
HANDFUL_CHARACTERS: Final = 64
"""Shorter answers are alike where many prompts have one answer: `Yes.`"""


def alike_answers(said: Int64, prompt_of: Callable[[int], int]) -> AlikeAnswers | None:
    """Of different prompts that begin a request, how many had the commonest answer; None without long ones.

    An answer is held against those of its own length; one that has no like is alike to none.
    """
    answered: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, turn, digest, at, _, characters, _, tokens in said.tolist():
        long = tokens >= HANDFUL_TOKENS if tokens > 0 else characters >= HANDFUL_CHARACTERS
        if turn == 0 and long:
            answered[at][digest].add(prompt_of(number))
    compared = alike = 0
    for answers in answered.values():
        commonest = max(len(prompts) for prompts in answers.values())
        compared += len(set().union(*answers.values()))
        alike += commonest if commonest > 1 else 0
    return AlikeAnswers(compared=compared, alike=alike) if compared else None
