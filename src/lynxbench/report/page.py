"""The shell of every page: one head, one style sheet, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from lynxbench.report.markup import Safe, raw, tag
from lynxbench.report.palette import colour_rules


def render_page(title: str, body: Safe, *, more_style: str = "", script: str = "") -> str:
    """A whole HTML text that opens without a network; only the given script may run, and none where none is given."""
    style = "\n" + colour_rules() + "\n" + asset("style.css") + more_style
    allowed = f"style-src 'sha256-{_digest(style)}'; " + (f"script-src 'sha256-{_digest(script)}'; " if script else "")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'",
        ),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", raw(style)),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


@cache
def asset(name: str) -> str:
    """A file of this package; part of the code, not of anybody's data."""
    return files("lynxbench.report").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
