"""The model that a contract asks for, held against the models that its server lists at `/v1/models`.

A server or a proxy that ignores the name answers with another model, and nothing in a stream of tokens shows it.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import JsonValue

from lynxbench.measure.validity import Doubt
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.workload import ServedModel
from lynxbench.visible import visible_line

LISTED: Final = 12
"""The edition of the rules since which a name that a server does not list is a doubt."""
LISTS: Final = ("data", "models")
"""Where lists stand: OpenAI's place, and the one that llama.cpp fills beside it."""
NAMING: Final = ("id", "name", "model", "root", "parent")
"""Fields that name a model; vLLM gives the weights of an adapter as `root` and its base as `parent`."""
ALIASES: Final = "aliases"
LATEST: Final = ":latest"
"""What Ollama understands where a name has no tag."""
PREFIX: Final = "models/"
"""Google's lists have it before every name, and requests may leave it out."""
WEIGHTS: Final = ".gguf"
SHOWN: Final = 3
LONGEST: Final = 100
"""Characters of a name that are shown."""


def judge_names(contract: Contract, executor: Executor, rules: int) -> list[Doubt]:
    """A doubt for every asked name that a server's own list lacks; none where no whole list could be read."""
    field = executor.layers.get(Layer.SERVING, {}).get("server_models")
    rows = None if field is None else list(_rows(field.value))
    if rules < LISTED or not rows or _is_part(field.value if field else None):
        return []
    known = {name for row in rows for name in _names(row)}
    if not known:
        return []
    model = contract.workload.model
    asked = [one.name for one in contract.workload.models] or ([model.name] if isinstance(model, ServedModel) else [])
    return [_doubt(name, rows) for name in dict.fromkeys(asked) if not _is_listed(name, known)]


def _doubt(name: str, rows: list[dict[str, Any]]) -> Doubt:
    named = (next(_names(row), "a model without a name") for row in rows)
    listed = list(dict.fromkeys(visible_line(text)[:LONGEST] for text in named))
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return Doubt(
        f"the server answered for model {name}, which its /v1/models does not list (it lists "
        f"{', '.join(listed[:SHOWN])}{more}): another model may have answered; name one that is listed in "
        "workload.model, or give the server that name"
    )


def _rows(listed: JsonValue) -> Iterator[dict[str, Any]]:
    """The entries of a list, in whichever of the known places it stands."""
    places = [listed] if isinstance(listed, list) else []
    if isinstance(listed, dict):
        places = [listed.get(place) for place in LISTS]  # type: ignore[misc]
    for rows in places:
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict | str):
                yield {"id": row} if isinstance(row, str) else row


def _is_part(listed: JsonValue) -> bool:
    """Whether a list says that it goes on elsewhere: what is not in its first page may be in the next."""
    return isinstance(listed, dict) and any(bool(listed.get(more)) for more in ("has_more", "nextPageToken", "next"))


def _names(row: dict[str, Any]) -> Iterator[str]:
    """Everything that an entry calls itself."""
    for field in NAMING:
        if isinstance(row.get(field), str) and row[field]:
            yield row[field]
    aliases = row.get(ALIASES)
    yield from (alias for alias in aliases if isinstance(alias, str)) if isinstance(aliases, list) else ()


def _is_listed(name: str, known: set[str]) -> bool:
    return any(name in _spellings(listed) or _covers(listed, name) for listed in known)


def _spellings(listed: str) -> set[str]:
    """A listed name as requests may write it: without a usual tag or prefix, or a file's folder or ending."""
    is_path = listed.startswith(("/", "./", "../", "~")) or listed.endswith(WEIGHTS)
    last = re.split(r"[/\\]", listed.rstrip("/"))[-1] if is_path else listed
    return {
        *(listed, listed.removesuffix(LATEST), listed.removeprefix(PREFIX), last, last.removesuffix(WEIGHTS)),
        *((f"{PREFIX}{listed}", f"{listed}{LATEST}") if ":" not in listed else ()),
    }


def _covers(listed: str, name: str) -> bool:
    """Whether an entry stands for all names with its beginning, as proxies write it (`openai/*`)."""
    return listed.endswith("*") and name.startswith(listed[:-1])
