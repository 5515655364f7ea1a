"""The shell of every page of the server: one head, the same way around everywhere, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lynxbench import __version__
from lynxbench.model.figures import Figure
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, join, said, tag
from lynxbench.report.pack import PACK_STYLE
from lynxbench.report.page import asset
from lynxbench.report.palette import colour_rules
from lynxbench.server.rights import AccessScope, Principal

AROUND = (
    ("/", "Overview"),
    ("/contracts", "Contracts"),
    ("/results", "Results"),
    ("/compare", "Compare"),
    ("/executors", "Executors"),
    ("/experiments", "Experiments"),
    ("/fleet", "Fleet"),
    ("/decisions", "Decisions"),
    ("/runs", "Runs"),
    ("/ledger", "Ledger"),
    ("/claims", "Claims"),
)

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page without the shell around it: the same for everybody, so it can be kept."""

    title: str
    header: Safe
    main: Safe
    status: int = 200

    @property
    def size_bytes(self) -> int:
        """What keeping it costs."""
        return len(self.header) + len(self.main)


def make_page(title: str, lead: Child, *sections: Child, eyebrow: str = "", status: int = 200) -> Page:
    """A page with its heading, a sentence under it, and its sections."""
    header = join(
        [
            tag("p", eyebrow, class_="brand") if eyebrow else None,
            tag("h1", said(title)),
            tag("p", lead, class_="lead") if lead else None,
        ]
    )
    return Page(title, header, join(sections), status)


def render_shell(page: Page, viewer: Principal, here: str, *, signing_in: bool = True) -> str:
    """The whole HTML text."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="same-origin"),
        tag("title", f"{page.title} · lynxbench"),
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href=f"/static/{style_name()}"),
    )
    links = [
        tag("a", name, href=target, aria_current="page" if _is_here(target, here) else None) for target, name in AROUND
    ]
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "div",
            tag(
                "div",
                tag("a", "lynxbench", href="/", class_="home"),
                tag("nav", links, aria_label="Site", class_="around"),
                _who(viewer, signing_in),
                class_="bar",
            ),
            class_="top",
            role="banner",
        ),
        page.header if page.header.startswith("<header") else tag("header", page.header),
        tag("main", page.main, id="content", tabindex="-1"),
        tag("footer", tag("p", f"lynxbench {__version__}. A number never travels without its context.")),
        tag("script", src=f"/static/{script_name()}", defer=True),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _who(viewer: Principal, signing_in: bool) -> Safe | None:
    if viewer.via == "session":
        return tag(
            "div",
            tag("a", said(viewer.name), href="/account", aria_label=f"Account of {viewer.name}"),
            tag("a", "Admin", href="/admin") if viewer.may(AccessScope.ADMINISTER) else None,
            tag("form", hidden_csrf(viewer), tag("button", "Sign out"), method="post", action="/signout"),
            class_="who",
        )
    return tag("div", tag("a", "Sign in", href="/signin"), class_="who") if signing_in else None


def hidden_csrf(viewer: Principal) -> Safe:
    """What every form of a session carries."""
    return tag("input", type="hidden", name="csrf", value=viewer.csrf)


def field(label: str, name: str, **attributes: str | int | bool | None) -> Safe:
    """A labelled input."""
    identifier = f"field-{name}"
    shown = tag("label", label, for_=identifier)
    return tag("div", shown, tag("input", id=identifier, name=name, **attributes), class_="field")


def choice(label: str, name: str, options: list[tuple[str, str]], chosen: str = "") -> Safe:
    """A labelled choice."""
    identifier = f"field-{name}"
    inner = [tag("option", shown, value=value, selected=value == chosen) for value, shown in options]
    return tag(
        "div", tag("label", label, for_=identifier), tag("select", inner, id=identifier, name=name), class_="field"
    )


def link_to(kind: str, identifier: str, words: Child = None) -> Safe:
    """A link to a contract, result or executor by its id."""
    return tag("a", words or tag("code", identifier[:12]), href=f"/{kind}/{identifier}")


def brief(stamp: str) -> Safe:
    """A moment in a table: to the minute, on one line; the title has all of it."""
    return tag("span", words.moment_text(stamp)[:16], class_="nowrap", title=f"{words.moment_text(stamp)}")


def figure_cell(figure: Figure | None) -> Safe:
    """A figure with its interval on one line."""
    return tag("span", words.figure_text(figure) if figure else "–", class_="nowrap")


def empty(*words: Child) -> Safe:
    """An honest empty state."""
    return tag("p", *words, class_="empty")


def _is_here(target: str, here: str) -> bool:
    return here == target if target == "/" else here == target or here.startswith(f"{target}/")


@cache
def style_text() -> str:
    """The report's style sheet with what pages of the server add."""
    own = files("lynxbench.server").joinpath("page.css").read_text(encoding="utf-8")
    return "\n".join((colour_rules(), asset("style.css"), PACK_STYLE, own))


@cache
def script_text() -> str:
    """The report's script, and the live view."""
    own = files("lynxbench.server").joinpath("page.js").read_text(encoding="utf-8")
    return asset("script.js") + own


@cache
def style_name() -> str:
    """Named by its content: a browser keeps it for ever and still never shows an old one."""
    return f"{_digest(style_text())}.css"


@cache
def script_name() -> str:
    """The same for the script."""
    return f"{_digest(script_text())}.js"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
