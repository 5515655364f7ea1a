"""Somebody else's text made harmless to whoever reads it: what drives a terminal, or is not seen, is written out."""

import re

UNSAFE = re.compile(
    "["
    "\u0000-\u0008\u000b-\u001f\u007f-\u009f"  # controls (C0 but tab and newline, DEL, C1): escape sequences begin so
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction: a text could read as something else
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # (these two lines: seen by nobody, Unicode's default-ignorable characters; whole texts hide in them)
    "\u2028\u2029"  # lines and paragraphs that only some programs break at
    "\ud800-\udfff"  # halves of a character: a file's name that is not UTF-8, or a JSON text's escapes
    "]"
)


def visible(text: str) -> str:
    """A text of several lines with every such character written out: an escape is shown as \\x1b, and does nothing."""
    return UNSAFE.sub(_written, text)


def visible_line(text: str) -> str:
    """The same in one line: nobody's text begins a line that looks like one of ours."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\x09")


def visible_json(text: str) -> str:
    """A JSON text in which they are escaped as JSON has it: the document is the same."""
    return UNSAFE.sub(_escaped, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
