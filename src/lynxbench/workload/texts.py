"""The bundled texts: prompts, a held-out passage for perplexity, and sentences labelled by polarity.

`prompts.txt` and `held_out.txt` were written for this project (Apache-2.0), so that no model has been trained on them.
`polarity.csv` holds 400 rated sentences of the vaderSentiment distribution (MIT, notice beside it), drawn with a fixed
seed from those of its product reviews that are plain ASCII, 25 to 110 characters long and rated at least one point away
from neutral: 200 of each polarity, split in half.
"""

import csv
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import StringIO

PROMPTS = "prompts.txt"
HELD_OUT = "held_out.txt"
POLARITY = "polarity.csv"


@dataclass(frozen=True, slots=True)
class LabelledSentence:
    """A sentence, 1 when its polarity is positive and 0 when negative, and the half it belongs to."""

    text: str
    label: int
    is_test: bool


@cache
def read_bundled(name: str) -> bytes:
    """The bytes of one bundled data file."""
    return files("lynxbench.workload").joinpath("data", name).read_bytes()


@cache
def bundled_sha256(name: str) -> str:
    """SHA-256 of one bundled data file, in hex."""
    return hashlib.sha256(read_bundled(name)).hexdigest()


def read_prompts() -> str:
    """Prose that prompts are cut from."""
    return read_bundled(PROMPTS).decode()


def read_held_out() -> str:
    """Prose that perplexity is measured on."""
    return read_bundled(HELD_OUT).decode()


@cache
def read_polarity() -> tuple[LabelledSentence, ...]:
    """The labelled sentences, train and test halves mixed, balanced in both."""
    rows = csv.DictReader(StringIO(read_bundled(POLARITY).decode()))
    return tuple(
        LabelledSentence(text=row["sentence"], label=int(row["label"]), is_test=row["split"] == "test") for row in rows
    )
