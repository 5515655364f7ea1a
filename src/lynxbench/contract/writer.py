"""A Contract back to YAML text that a person can read and that loads to the same id."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from lynxbench.contract.explain import explained_keys
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.layers import DEFAULT_OWNERS, WHAT_IT_HOLDS, Layer

REMARK_COLUMN = 44
"""Where comments start, so that keys and comments read as two columns; above the key where it is longer."""
LONGEST_INLINE = 20
"""Values of a list on one line."""

_PLAIN_TEXT = re.compile(r"[A-Za-z](?:[\w./%()+-]|[,?] | (?=[\w./%(+]))*[.?]?", re.ASCII)
_QUANTITY = re.compile(r"[0-9.]+(e[+-]?[0-9]+)? (s|%|/s)")
_RESERVED = frozenset({"true", "false", "null"})


class Marked:
    """What is said beside each key: `default` for what the contract left to the defaults, for `contract show`."""

    def key(self, document: Document, name: str, key: str) -> str:
        """Beside a key of a document; an empty text says nothing."""
        return "default" if name not in document.model_fields_set else ""

    def owner(self, layer: Layer, owner: str) -> str:
        """Beside a layer's owner."""
        return "usual owner" if owner == DEFAULT_OWNERS[layer] else ""

    def absent(self, document: Document, key: str) -> tuple[str, str]:
        """An optional key that has no value, as a commented line and its remark; empty to leave it out."""
        return "", ""


class Explained(Marked):
    """Explains every key in a line: for `contract new`."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        self.hidden = hidden

    def key(self, document: Document, name: str, key: str) -> str:
        """What the key is for."""
        return explained_keys()[f"{type(document).__name__}.{key}"].says

    def owner(self, layer: Layer, owner: str) -> str:
        """What the layer holds."""
        return WHAT_IT_HOLDS[layer]

    def absent(self, document: Document, key: str) -> tuple[str, str]:
        """An optional key, ready to be uncommented."""
        known = explained_keys()[f"{type(document).__name__}.{key}"]
        if not known.example or key in self.hidden:
            return "", ""
        return f"# {key}: {known.example}", known.says


def render_contract(contract: Contract, remarks: Marked) -> str:
    """The whole contract, defaults filled in, as block YAML with remarks."""
    return "\n".join(_Writer(remarks).document(contract, contract.canonical(), 0)).strip("\n") + "\n"


def render_scalar(value: object) -> str:
    """One value as a YAML scalar that reads back as the same value."""
    if isinstance(value, str):
        plain = _PLAIN_TEXT.fullmatch(value) or _QUANTITY.fullmatch(value)
        return value if plain and value.lower() not in _RESERVED else _quoted(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # the canonical form has no 95.0 either
    return json.dumps(value)


def _quoted(text: str) -> str:
    # JSON's escapes are YAML's too; line separators and controls beyond ASCII must be escaped besides.
    return re.sub(
        "[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]",
        lambda match: f"\\u{ord(match.group()):04x}",
        json.dumps(text, ensure_ascii=False),
    )


class _Writer:
    def __init__(self, remarks: Marked) -> None:
        self.remarks = remarks

    def document(self, document: Document, values: Mapping[str, object], indent: int) -> Iterator[str]:
        for name, info in type(document).model_fields.items():
            key = info.alias or name
            pad = " " * indent
            if values.get(key) is None:  # also one that is left out of the canonical form at its default
                line, remark = self.remarks.absent(document, key)
                if line:
                    yield from _remarked(pad, line, remark)
                continue
            inside = list(self.inside(key, getattr(document, name), values[key], indent + 2))
            if inside and indent == 0:
                yield ""
            line = f"{key}:" if inside else f"{key}: {_inline(values[key])}"
            yield from _remarked(pad, line, self.remarks.key(document, name, key))
            yield from inside

    def inside(self, key: str, attribute: object, value: object, indent: int) -> Iterator[str]:
        """The lines under a key; none where the value fits beside it."""
        if isinstance(attribute, Document) and isinstance(value, dict):
            yield from self.document(attribute, value, indent)
        elif isinstance(value, dict):
            for name, item in value.items():
                remark = self.remarks.owner(Layer(name), str(item)) if key == "owners" else ""
                yield from _remarked(" " * indent, f"{render_scalar(name)}: {_inline(item)}", remark)
        elif isinstance(value, list) and isinstance(attribute, Sequence):
            for item, dumped in zip(attribute, value, strict=True):
                if isinstance(item, Document):
                    first, *rest = self.document(item, dumped, indent + 2)
                    yield f"{' ' * indent}- {first.lstrip()}"
                    yield from rest
            if len(value) > LONGEST_INLINE:
                yield from _wrapped(value, " " * indent)


def _wrapped(values: Sequence[object], pad: str) -> Iterator[str]:
    rows = [values[start : start + LONGEST_INLINE] for start in range(0, len(values), LONGEST_INLINE)]
    for index, row in enumerate(rows):
        opening, closing = "[" if index == 0 else " ", "]" if index == len(rows) - 1 else ","
        yield f"{pad}{opening}{', '.join(render_scalar(value) for value in row)}{closing}"


def _inline(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(render_scalar(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{render_scalar(k)}: {_inline(v)}' for k, v in value.items())}}}"
    return render_scalar(value)


def _remarked(pad: str, line: str, remark: str) -> Iterator[str]:
    if remark and len(pad) + len(line) >= REMARK_COLUMN and not line.startswith("#"):
        yield f"{pad}# {remark}"
        yield pad + line
    else:
        yield f"{pad + line:<{REMARK_COLUMN - 1}} # {remark}" if remark else pad + line
