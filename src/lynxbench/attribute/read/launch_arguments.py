"""A server's launch arguments as options and values, whichever way they were written."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?$", re.DOTALL)

SEQUENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("max-num-seqs",),
    "sglang": ("max-running-requests",),
    "tgi": ("max-batch-size",),
    "llamacpp": ("parallel", "np"),
}
"""By server, the arguments that say how many requests it works on at once."""
ENGINES: Final = ("data-parallel-size", "dp", "dp-size", "data-parallel-rank")
"""Arguments of several engines behind one port: each has so many for itself."""


def slots_of(server: str, words: Sequence[str]) -> int | None:
    """How many requests a server works on at once, by the words it was started with; None where they do not say."""
    arguments = parse_arguments(words)
    if any(name in arguments and number_of(arguments, name) != 1 for name in ENGINES):
        return None
    numbers = (number_of(arguments, name) for name in SEQUENCES.get(server, ()))
    number = next((one for one in numbers if one is not None), 0.0)
    return int(number) if number >= 1 and number == int(number) else None


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    """Options by name, with hyphens and without the leading ones; a switch has an empty value, the last one counts."""
    options: dict[str, str] = {}
    name = ""
    for word in words:
        match = _OPTION.match(word)
        if match is not None and not _is_number(word):
            name = match["name"].replace("_", "-")
            options[name] = match["value"] or ""
            name = "" if match["value"] is not None else name
        elif name:
            options[name] = word
            name = ""
    return options


def number_of(arguments: Mapping[str, str], name: str) -> float | None:
    """An option's number; None where it was not given or is none. vLLM also takes `8k`, a thousand, and `8K`, 1024."""
    text = arguments.get(name, "").strip()
    scale = {"k": 1e3, "K": 1024.0, "m": 1e6, "M": 1024.0**2}.get(text[-1:], 0.0)
    try:
        return float(text[:-1]) * scale if scale else float(text)
    except ValueError:
        return None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
