"""A server's launch arguments as options and values, whichever way they were written."""

import re
from collections.abc import Mapping, Sequence

_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)(?:=(?P<value>.*))?$", re.DOTALL)


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
