"""What the machines of listed results are, in words: from the documents that the results came with."""

from collections.abc import Iterable

from pydantic import JsonValue
from pydantic_core import from_json

from lynxbench.errors import LynxbenchError
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import Listed
from lynxbench.model.entries import RESULT_BLOB
from lynxbench.model.layers import Layer
from lynxbench.model.machine_words import machine_words


def machine_names(ledger: OpenLedger, listed: Iterable[Listed]) -> dict[str, str]:
    """By executor id: its words, from one document each; an executor whose document is not here has none."""
    newest: dict[str, Listed] = {}
    for result in listed:
        newest.setdefault(result.executor_id, result)
    names = {executor_id: machine_name(ledger, result) for executor_id, result in newest.items()}
    return {executor_id: name for executor_id, name in names.items() if name}


def machine_name(ledger: OpenLedger, result: Listed) -> str:
    """The words for a result's machine; read without building the document, as a list opens many."""
    try:
        blobs = ledger.log.read(result.seq).entry.blobs
        data = next((ledger.blobs.get(blob.sha256) for blob in blobs if blob.name == RESULT_BLOB), b"{}")
        layers = from_json(data)["executor"]["layers"]
        return machine_words(lambda layer, name: _value(layers, layer, name))
    except (LynxbenchError, ValueError, KeyError, TypeError):
        return ""


def _value(layers: dict[str, dict[str, dict[str, JsonValue]]], layer: Layer, name: str) -> JsonValue:
    return layers.get(layer.value, {}).get(name, {}).get("value")
