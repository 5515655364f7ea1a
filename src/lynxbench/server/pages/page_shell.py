"""The shell of every page of the server: one head, the same way around everywhere, and nothing from elsewhere."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from lynxbench import __version__
from lynxbench.report import doc
from lynxbench.report.doc import Inline, Style, said
from lynxbench.report.markup import Attribute, Child, Safe, join, tag
from lynxbench.report.palette import LIGHT, colour_rules
from lynxbench.report.render_html import HtmlRenderer, asset, page_script
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
_GAP = Safe("\0")
"""Where a page's own parts go; no text of a page holds a zero byte."""
_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"')


@dataclass(frozen=True, slots=True)
class Page:
    """A page without the shell around it: the same for everybody, so it can be kept."""

    title: str
    header: Safe
    main: Safe
    status: int = 200
    plots: Mapping[str, Safe] = field(default_factory=dict)
    """Its pictures, by name: each is a file of its own as well."""
    _sent: list["SentParts"] = field(init=False, default_factory=list, repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """What keeping it costs: its text, and the same as it is sent."""
        return 2 * (len(self.header) + len(self.main)) + sum(map(len, self.plots.values()))

    def sent(self) -> "SentParts":
        """Its parts as they are sent: made once for all who read it."""
        if not self._sent:
            parts = tag("title", f"{self.title} · lynxbench").encode(), self.header.encode(), self.main.encode()
            self._sent.append(SentParts(parts, _digest(parts)))
        return self._sent[0]


class SentParts(NamedTuple):
    """Bytes that are put together into answers, and what tells them from others."""

    parts: tuple[bytes, ...]
    digest: bytes


def _digest(parts: tuple[bytes, ...]) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()


def make_page(report: doc.Report, *, status: int = 200, plots_at: str = "") -> Page:
    """A report as a page of this site; its plots are files under `plots_at`."""
    renderer = HtmlRenderer(site=True, plots_at=plots_at)
    return Page(report.name, renderer.header(report), renderer.blocks(report.blocks), status, renderer.pictures)


def pages_links(place: str, page: int, *, more: bool) -> doc.Links | None:
    """To the pages of a list before and after this one."""
    links = [doc.link("Previous page", f"{place}?page={page - 1}")] if page > 1 else []
    links += [doc.link("Next page", f"{place}?page={page + 1}")] if more else []
    return doc.Links("Pages", links) if links else None


def older_link(place: str, seqs: Sequence[int], most: int) -> doc.Links | None:
    """On from the last of a page of entries, where the page is full."""
    return doc.Links("Pages", [doc.link("Older", f"{place}?before={seqs[-1]}")]) if len(seqs) == most else None


def problem_note(problem: str) -> doc.Note | None:
    """What was wrong with a form."""
    return doc.Note(said(problem), Style.ALERT) if problem else None


def list_page(name: str, lead: Inline, *blocks: doc.Block | None, title: str = "List") -> Page:
    """A page with one list."""
    return make_page(doc.Report(name, (doc.Section("list", title, blocks),), lead=lead))


def render_shell(page: Page, viewer: Principal, here: str) -> tuple[bytes, str]:
    """The whole HTML text as it is sent, and what a browser knows it by."""
    inside = (target for target, _ in AROUND if here == target or (target != "/" and here.startswith(f"{target}/")))
    around, own = _shell(next(inside, None), _who(viewer)), page.sent()
    before, after_title, after_header, after_main = around.parts
    title, header, main = own.parts
    text = b"".join((before, title, after_title, header, after_header, main, after_main))
    return text, hashlib.blake2b(around.digest + own.digest, digest_size=12).hexdigest()


@lru_cache(maxsize=256)
def _shell(inside: str | None, who: Safe) -> SentParts:
    """What stands around title, header and main of every page that the same reader sees in one part of the site."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="same-origin"),
        _GAP,
        tag("link", rel="icon", href="data:,"),
        tag("link", rel="stylesheet", href=f"/static/{style().name}"),
    )
    links = [tag("a", name, href=target, aria_current="page" if target == inside else None) for target, name in AROUND]
    bar = tag(
        "div",
        tag("a", "lynxbench", href="/", class_="home"),
        tag("nav", links, aria_label="Site", class_="around"),
        _seek(),
        who,
        class_="bar",
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("div", bar, class_="top", role="banner"),
        tag("header", _GAP),
        tag("main", _GAP, id="content", tabindex="-1"),
        tag("footer", tag("p", f"lynxbench {__version__}. A number never travels without its context.")),
        tag("script", src=f"/static/{script().name}", defer=True),
    )
    parts = ("<!doctype html>\n" + tag("html", head, body, lang="en") + "\n").split(_GAP)
    assert len(parts) == 4, "a gap stands for title, header and main alone"
    sent = tuple(part.encode() for part in parts)
    return SentParts(sent, _digest(sent))


def _seek() -> Safe:
    field = tag("input", type="search", name="q", aria_label="Search everything", placeholder="Search", maxlength=200)
    return tag("form", field, action="/search", role="search", aria_label="Everything", class_="seek")


def _who(viewer: Principal) -> Safe:
    if viewer.via == "session":
        return tag(
            "div",
            tag("a", tag("bdi", viewer.name), href="/account", aria_label=f"Account of {viewer.name}"),
            tag("a", "Admin", href="/admin") if viewer.may(AccessScope.ADMINISTER) else None,
            tag("form", hidden_field("csrf", viewer.csrf), tag("button", "Sign out"), method="post", action="/signout"),
            class_="who",
        )
    return tag("div", tag("a", "Sign in", href="/signin"), class_="who")


# --- forms ----------------------------------------------------------------------------------------------------------


def form(action: str, *children: Child, viewer: Principal | None = None, **attributes: Attribute) -> doc.Embedded:
    """A form of a session, which posts; without a viewer one that only asks, which everybody may."""
    posts = viewer is not None
    usual: dict[str, Attribute] = {"method": "post" if posts else "get", "class_": "narrow" if posts else "filter"}
    carried = None if viewer is None else hidden_field("csrf", viewer.csrf)
    return doc.Embedded(tag("form", carried, *children, action=action, **(usual | attributes)))


def row_form(viewer: Principal, action: str, word: str, label: str, *children: Child, **fields: str) -> doc.Embedded:
    """A button in a row of a table; `fields` say what it is about."""
    carried = [hidden_field(name, value) for name, value in fields.items()]
    return form(action, carried, children, tag("button", word, aria_label=label), viewer=viewer, class_=None)


def pair_form(
    action: str, names: tuple[str, str], button: str, a: str, b: str, offered: Sequence[tuple[str, str]] = ()
) -> doc.Embedded:
    """Which two? Picked by name from what is offered, or typed."""
    fields = [
        text_field(label, name, offered, value=value, required=True, spellcheck="false")
        for label, name, value in zip(names, ("a", "b"), (a, b), strict=True)
    ]
    return form(action, fields, tag("button", button), class_="filter ids")


def hidden_field(name: str, value: str) -> Safe:
    """A value that a form carries along."""
    return tag("input", type="hidden", name=name, value=value)


def text_field(label: str, name: str, offered: Sequence[tuple[str, str]] = (), **attributes: Attribute) -> Safe:
    """A labelled input; what is offered beside it can be picked by its words, without any script."""
    if not offered:
        return _labelled(label, name, tag("input", id=f"field-{name}", name=name, **attributes))
    options = [tag("option", shown, value=value) for value, shown in offered]
    picker = tag("datalist", options, id=f"offered-{name}")
    field = tag("input", id=f"field-{name}", name=name, list=f"offered-{name}", autocomplete="off", **attributes)
    return _labelled(label, name, join([field, picker]))


def text_area(label: str, name: str, text: str = "", **attributes: Attribute) -> Safe:
    """A labelled box for more than a line."""
    inner = tag("textarea", text, id=f"field-{name}", name=name, required=True, **attributes)
    return _labelled(label, name, inner, "field wide")


def choice(label: str, name: str, options: list[tuple[str, str]], chosen: str = "") -> Safe:
    """A labelled choice."""
    inner = [tag("option", shown, value=value, selected=value == chosen) for value, shown in options]
    return _labelled(label, name, tag("select", inner, id=f"field-{name}", name=name))


def scope_boxes(legend: str, scopes: frozenset[AccessScope] | None = None) -> Safe:
    """What somebody, or a token, may do; reading is ticked."""
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="scope", value=scope.value, checked=scope is AccessScope.READ),
            f" {scope.value}",
        )
        for scope in AccessScope
        if scopes is None or scope in scopes
    ]
    return tag("fieldset", tag("legend", legend), boxes)


def _labelled(label: str, name: str, inner: Safe, css: str = "field") -> Safe:
    return tag("div", tag("label", label, for_=f"field-{name}"), inner, class_=css)


# --- files ----------------------------------------------------------------------------------------------------------


class StaticFile(NamedTuple):
    """Named by its content: a browser keeps it for ever and still never shows an old one."""

    name: str
    text: str
    kind: str


@cache
def style() -> StaticFile:
    """The report's style sheet with what pages of the server add."""
    return _static("page.css", f"{colour_rules()}\n{asset('style.css')}\n", "text/css")


@cache
def script() -> StaticFile:
    """The report's script, and the live view."""
    return _static("page.js", page_script(), "text/javascript")


def _static(own: str, before: str, kind: str) -> StaticFile:
    text = before + files("lynxbench.server").joinpath(own).read_text(encoding="utf-8")
    return StaticFile(f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.{own.partition('.')[2]}", text, kind)


def standalone_svg(markup: str) -> str:
    """A plot as an SVG document of its own, with its colours inside and nothing that runs.

    The markup is ours, so every text in it is escaped already.
    """
    css = (
        f"{colour_rules()}\n{asset('style.css')}\nsvg{{background:{LIGHT.colours['surface']}}}\n"
        "text{font-family:system-ui,sans-serif}"
    ).replace("]]>", "")
    size = _BOX.search(markup)
    box = f' width="{size[1]}" height="{size[2]}"' if size else ""
    opened = markup.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg"{box}', 1)
    first_end = opened.index(">") + 1
    return opened[:first_end] + f"<style><![CDATA[{css}]]></style>" + opened[first_end:]
