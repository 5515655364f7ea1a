"""The reference page of the contract, made from its schema so that it cannot fall behind."""

import json
from collections.abc import Iterator

from lynxbench.contract.diff import RULES
from lynxbench.contract.schema import contract_schema
from lynxbench.model.file_problems import Schema, resolved
from lynxbench.model.layers import DEFAULT_OWNERS, WHAT_IT_HOLDS, Layer
from lynxbench.model.quantities import DURATIONS, RATES, RATIOS

_INTRODUCTION = """\
# The contract, key by key

This page is made from the schema by `lynxbench.contract.contract_reference`; do not edit it. To renew it:

```
python -m lynxbench.contract.contract_reference > docs/reference/contract.md
```

A contract is one YAML 1.2 document. Unknown keys, duplicate keys, tags, merge keys (`<<`), a second document and
values that cannot be are refused with file, line, key and what would be right. Small aliases (`*name`) are allowed.
Keys marked **required** have no default. `lynxbench contract schema` prints the same as JSON Schema for editors.
"""


def render_reference() -> str:
    """The whole page as Markdown."""
    schema = contract_schema()
    parts = [_INTRODUCTION, _units(), *_section("The contract", schema)]
    for name, title in _below(schema, "", set()):
        parts.extend(_section(title, schema["$defs"][name]))
    parts += [_owners(), _rules()]
    return "\n".join(parts)


def _units() -> str:
    rows = [
        ("duration", ", ".join(DURATIONS), "`90 s`, `1.5 min`, `250 ms`"),
        ("ratio", ", ".join(RATIOS), "`5 %`"),
        ("rate", ", ".join(RATES), "`12 /s`, `600 /min`"),
    ]
    lines = [f"| {kind} | {units} | {examples} |" for kind, units, examples in rows]
    return "\n".join(
        [
            "## Quantities",
            "",
            "A quantity is written with its unit; a bare number is refused. `90 s` and `1.5 min` mean the same.",
            "",
            "| quantity | units | examples |",
            "|---|---|---|",
            *lines,
            "",
        ]
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


def _owners() -> str:
    rows = [f"| `{layer}` | {WHAT_IT_HOLDS[layer]} | {DEFAULT_OWNERS[layer]} |" for layer in Layer]
    return "\n".join(["## `owners`", "", "| layer | what it holds | usual owner |", "|---|---|---|", *rows, ""])


def _rules() -> str:
    rows = [
        f"| `{key}` | {'**breaks**' if rule.breaks else 'does not'} | {rule.reason} | {rule.exception} |"
        for key, rule in RULES.items()
    ]
    return "\n".join(
        [
            "## What a difference does to comparability",
            "",
            "`lynxbench contract diff A B` judges every key that differs by the longest key here that fits it.",
            "The thought behind the rules is in [methodology](../methodology/contract.md).",
            "",
            "| key | a difference | because | it breaks all the same where |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    import sys

    sys.stdout.write(render_reference())
