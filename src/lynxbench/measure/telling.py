"""Whether answers could have told a difference: those that ignore the prompt, or prefer no token, cannot. Pure.

Two sets of answers that agree show something only where one that reads no prompt would not have agreed as well, and
only where the reference prefers a token by more than rounding moves. See docs/methodology/accuracy.md.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from lynxbench.model.samples import Float64, Int64
from lynxbench.stats.intervals import mean_interval

TELLING: Final = 7
"""The edition of the rules since which a verdict needs answers that could have told."""
LEVEL_NATS: Final = 0.125
"""Top two tokens this close are level: one step of a bf16 number between 16 and 32, where large models' logits lie."""
MOST_LEVEL: Final = 0.5
"""Of the reference's choices: where more are level, rounding has made most of them."""
TRAINED: Final = "measure with trained weights"

Hashes = npt.NDArray[np.uint64]


def is_blind(answers: Hashes) -> bool:
    """Whether answers [prompt, token] are not told from one answer that is given to every prompt.

    That answer is the one of them that goes along with most of the others; told is 95 %, paired by prompt.
    """
    return _is_no_better((answers != 0).sum(axis=1), _along(answers))


def is_blind_choice(choices: Int64) -> bool:
    """The same of one choice a row."""
    names, counts = np.unique(choices, return_counts=True)
    return _is_no_better(np.ones(len(choices), dtype=np.int64), (choices == names[np.argmax(counts)]).astype(np.int64))


def is_level(margins: Float64) -> bool:
    """Whether most choices were made between tokens that are level; False where no margin is known."""
    known = margins[np.isfinite(margins)]
    return bool(known.size and (known <= LEVEL_NATS).mean() > MOST_LEVEL)


def is_level_text(losses: Float64) -> bool:
    """Whether the tokens of a text, whichever they are, are all held about equally likely."""
    known = losses[np.isfinite(losses)]
    return bool(known.size > 1 and known.std() <= LEVEL_NATS)


def why_blind(distinct: int, count: int, what: str = "prompts") -> str:
    """In words, with the next step."""
    answers = "one answer" if distinct == 1 else f"{distinct} answers"
    words = f"the reference gives {answers} to {count} {what}: whoever reads none agrees about as well"
    return f"{words}, so agreement tells nothing; {TRAINED}"


def why_level() -> str:
    """In words, with the next step."""
    words = "the reference prefers no token by more than rounding moves: its scores are level"
    return f"{words}, so agreement tells nothing of a format; {TRAINED}"


def _along(answers: Hashes) -> Int64:
    """Tokens for which each answer goes along with the one answer that goes along with most."""
    best = np.zeros(len(answers), dtype=np.int64)
    for row in np.unique(answers, axis=0):
        same = ((answers == row) & (answers != 0)).sum(axis=1)
        best = same if same.sum() > best.sum() else best
    return best


def _is_no_better(whole: Int64, blind: Int64) -> bool:
    return not mean_interval((whole - blind).astype(np.float64)).low > 0
