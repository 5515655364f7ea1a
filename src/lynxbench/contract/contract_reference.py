"""The reference page of the contract, made from its schema so that it cannot fall behind."""

import json
from collections.abc import Iterator
from importlib.resources import files

from lynxbench.contract.diff import RULES
from lynxbench.contract.schema import contract_schema
from lynxbench.model.file_problems import Schema, resolved
from lynxbench.model.layers import DEFAULT_OWNERS, WHAT_IT_HOLDS, Layer
from lynxbench.model.quantities import DURATIONS, RATES, RATIOS


def render_reference() -> str:
    """The whole page as Markdown."""
    schema = contract_schema()
    parts = list(_section("The contract", schema))
    for name, title in _below(schema, "", set()):
        parts.extend(_section(title, schema["$defs"][name]))
    owners = [f"| `{layer}` | {WHAT_IT_HOLDS[layer]} | {DEFAULT_OWNERS[layer]} |" for layer in Layer]
    rules = [
        f"| `{key}` | {'**breaks**' if rule.breaks else 'does not'} | {rule.reason} | {rule.exception} |"
        for key, rule in RULES.items()
    ]
    template = (files("lynxbench.contract") / "reference.md").read_text(encoding="utf-8")
    return template.format(
        durations=", ".join(DURATIONS),
        ratios=", ".join(RATIOS),
        rates=", ".join(RATES),
        sections="\n".join(parts),
        owners="\n".join(owners),
        rules="\n".join(rules),
    )


def _section(title: str, schema: Schema) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{schema['description']}\n"
    yield "| key | value | default | what it is |"
    yield "|---|---|---|---|"
    required = set(schema.get("required", ()))
    for key, value in schema["properties"].items():
        default = "**required**" if key in required else _default(value)
        yield f"| `{key}` | {_words(value)} | {default} | {value['description']} |"
    yield ""


def _below(schema: Schema, path: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    for key, value in schema["properties"].items():
        here = f"{path}.{key}" if path else key
        for name in _objects(value):
            if name in seen:
                continue
            seen.add(name)
            part = contract_schema()["$defs"][name]
            tag = _tag_word(part)
            yield name, f"`{here}`" + (f": {tag}" if tag else "")
            yield from _below(part, here, seen)


def _objects(value: Schema) -> list[str]:
    """The named objects a key may hold, in the order of the schema."""
    value = _behind_null(value)
    options = value.get("oneOf") or [value.get("items", value)]
    names = [option["$ref"].removeprefix("#/$defs/") for option in options if "$ref" in option]
    return [name for name in names if "properties" in contract_schema()["$defs"][name]]


def _tag_word(schema: Schema) -> str:
    for key, value in schema["properties"].items():
        if key in ("source", "distribution", "process", "name") and "const" in value:
            return f"{key} `{value['const']}`"
    return ""


def _behind_null(value: Schema) -> Schema:
    some: list[Schema] = [part for part in value.get("anyOf", ()) if part.get("type") != "null"]
    return some[0] if len(some) == 1 else value


def _words(value: Schema) -> str:
    inner = resolved(value, contract_schema()["$defs"])
    if "oneOf" in inner:
        tags = " \\| ".join(f"`{tag}`" for tag in inner["discriminator"]["mapping"])
        return f"mapping; {inner['discriminator']['propertyName']} is {tags}"
    if "const" in inner:
        return f"`{inner['const']}`"
    if "enum" in inner:
        return " \\| ".join(f"`{option}`" for option in inner["enum"])
    if inner.get("type") == "array":
        return f"list of {_words(inner['items'])}"
    return "mapping" if inner.get("type") == "object" else _scalar_words(inner)


def _scalar_words(inner: Schema) -> str:
    kind = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}[inner["type"]]
    if "examples" in inner:
        return f"quantity, such as `{inner['examples'][0]}`"
    bounds = [
        f"{word} {inner[name]:g}" if isinstance(inner[name], float) else f"{word} {inner[name]}"
        for name, word in (
            ("minimum", "from"),
            ("exclusiveMinimum", "above"),
            ("maximum", "to"),
            ("exclusiveMaximum", "below"),
        )
        if name in inner
    ]
    return " ".join([kind, *bounds])


def _default(value: Schema) -> str:
    default = value.get("default")
    if default is None or isinstance(default, dict):
        return "see below" if default else "none"
    return f"`{default}`" if isinstance(default, str) else f"`{json.dumps(default)}`"


if __name__ == "__main__":
    import sys

    sys.stdout.write(render_reference())
