"""How a command answers: one JSON document for programs, or text for people."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from lynxbench.cli.terminal import say, say_json
from lynxbench.cli.terminal import tell as tell
from lynxbench.errors import BadInput
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.canonical import plain_json
from lynxbench.model.document import Document


def answer(as_json: bool, document: Document | Callable[[], object], text: Callable[[], str]) -> None:
    """Print the document where JSON is wanted, else the text; only what is wanted is made."""
    if not as_json:
        say(text(), end="")
    else:
        print_document(document.model_dump(mode="json") if isinstance(document, Document) else document())


def print_document(document: object) -> None:
    """One JSON document; what is not known is null."""
    say_json(json.dumps(plain_json(document), indent=2, ensure_ascii=False, allow_nan=False))


def places_text(places: Mapping[str, str]) -> str:
    """Where things lie, under an answer: a line each, without those that are not there."""
    lines = [f"{name:<9} {place}\n" for name, place in places.items() if place]
    return "".join(["\n", *lines]) if lines else ""


def write_page(path: Path | None, page: Callable[[], str]) -> None:
    """Write a page where one is wanted, and say where."""
    if path is None:
        return
    try:
        write_text(path, page())
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror or error})") from None
    tell(f"written: {path}")
