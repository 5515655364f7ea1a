"""The public names of `import lynxbench` with their signatures as they are written, and the page about them."""

import ast
import inspect
import textwrap
from importlib import import_module

import lynxbench

_HEAD = """\
# Python

`import lynxbench` is instant; the names below are loaded when they are asked for. They are all that is public: rooms
such as `lynxbench.stats` may change at any time.

They follow [semantic versioning](https://semver.org): until 1.0 a name or signature is taken away or changed only with
a new minor version, and added with a new patch version at least. `tests/golden/public_api.json` holds them.

What goes wrong is a `LynxbenchError`: one line that says what, where and what to do. Its `exit_code` is the
[code](exit-codes.md) that the command line would have ended with.
How to: [use from Python](../how-to/use-from-python.md), [benchmark in pytest](../how-to/benchmark-in-pytest.md).
"""
PUBLIC: frozenset[str] = frozenset(vars(lynxbench)["__all__"]) - {"__version__"}
TERMS = "FunctionTerms"
"""The keywords of the decorator."""
_CALLED = ("__init__", "__enter__", "__exit__")

Node = ast.FunctionDef | ast.ClassDef


def public_signatures() -> dict[str, str]:
    """By name, members after a dot: the signature of what can be called, the type of what can be read."""
    signatures: dict[str, str] = {}
    for name in sorted(PUBLIC):
        node = _node_of(name)
        if isinstance(node, ast.FunctionDef):
            signatures[name] = _signature(node)
            continue
        signatures[name] = "class"
        signatures |= {f"{name}.{member}": written for member, (written, _) in _members(name).items()}
    return signatures | {f"benchmark(**terms).{term}": written for term, (written, _) in _members(TERMS).items()}


def render_python() -> str:
    """The page of the public surface."""
    lines = [_HEAD]
    for name in sorted(PUBLIC, key=lambda name: (name[0].isupper(), name)):
        node = _node_of(name)
        lines += [f"## `{name}`", ""]
        if isinstance(node, ast.FunctionDef):
            lines += ["```python", f"lynxbench.{name}{_signature(node)}", "```", ""]
        lines += [ast.get_docstring(node) or "", ""]
        described = TERMS if name == "benchmark" else name
        members = [] if isinstance(_node_of(described), ast.FunctionDef) else list(_members(described).items())
        if members:
            lines += ["| member | type or signature | meaning |", "|---|---|---|"]
            lines += [f"| `{member}` | `{_cell(written)}` | {_cell(about)} |" for member, (written, about) in members]
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _node_of(name: str) -> Node:
    return _parsed(getattr(import_module("lynxbench.api"), name))


def _parsed(thing: object) -> Node:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body  # type: ignore[arg-type]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return node


def _members(name: str) -> dict[str, tuple[str, str]]:
    """Of a class and of what it inherits from us: how each is written, and what is said of it."""
    members: dict[str, tuple[str, str]] = {}
    for kind in getattr(import_module("lynxbench.api"), name).__mro__:
        if not kind.__module__.startswith("lynxbench."):
            continue
        body = _parsed(kind).body
        for place, node in enumerate(body):
            after = body[place + 1] if place + 1 < len(body) else None
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                members.setdefault(node.target.id, (ast.unparse(node.annotation), _text_of(after)))
            elif isinstance(node, ast.FunctionDef):
                is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
                written = ast.unparse(node.returns) if is_property and node.returns else _signature(node)
                members.setdefault(node.name, (written, (ast.get_docstring(node) or "").split("\n")[0]))
    return {member: row for member, row in members.items() if member in _CALLED or not member.startswith("_")}


def _text_of(node: ast.stmt | None) -> str:
    """The text that stands below a field."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return node.value.value.split("\n")[0] if is_text else ""  # type: ignore[union-attr]


def _signature(node: ast.FunctionDef) -> str:
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("self")
    return f"({arguments})" + ("" if node.returns is None else f" -> {ast.unparse(node.returns)}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
