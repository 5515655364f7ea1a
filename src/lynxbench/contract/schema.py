"""JSON Schema of the contract, for editors and for whoever writes contracts by program."""

import json
from functools import cache
from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from lynxbench.contract.explain import explained_keys
from lynxbench.model.contract import Contract
from lynxbench.model.file_problems import Schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:lynxbench:contract:1"


class _AsWritten(GenerateJsonSchema):
    """Defaults in the form people write ("60 s"), not the form the program reads (60.0)."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        result = super().default_schema(schema)
        write = _writer_of(cast("dict[str, Any]", schema["schema"]))
        if write is not None and isinstance(result.get("default"), float):
            result["default"] = write(result["default"])
        return result


def _writer_of(inner: dict[str, Any]) -> Any:
    # The serializer hides under the bounds (gt, le) that wrap it.
    while True:
        serialization = inner.get("serialization")
        if serialization and serialization["type"] == "function-plain":
            return serialization["function"]
        if "schema" not in inner:
            return None
        inner = inner["schema"]


@cache
def contract_schema() -> Schema:
    """The schema as a value; do not change it in place."""
    schema = Contract.model_json_schema(by_alias=True, schema_generator=_AsWritten)
    named = {"Contract": schema, **schema["$defs"]}
    for name, part in named.items():
        for key, value in part.get("properties", {}).items():
            value.pop("title", None)
            value["description"] = explained_keys()[f"{name}.{key}"].says
            if "patternProperties" in value:
                value["additionalProperties"] = False
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **schema, "title": "lynxbench contract"}


def render_schema() -> str:
    """The schema as JSON text."""
    return json.dumps(contract_schema(), indent=2, ensure_ascii=False) + "\n"
