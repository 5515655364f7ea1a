"""Experiments and fleet runs, as far as the ledger holds them: entries of such kinds, whatever their form."""

from __future__ import annotations

import json

from lynxbench.listing import say
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.parts import section, table
from lynxbench.server import reading
from lynxbench.server.pages.shell import Page, empty, make_page
from lynxbench.server.reading import Spoken
from lynxbench.server.state import Server

SHOWN = 50
LONGEST = 20_000

EXPERIMENTS = ("experiment", "factorial", "trial", "tun", "optimis")
FLEET = ("fleet",)


def experiments_page(server: Server) -> Page:
    """Factorial experiments and bounded optimisation."""
    lead = "Which layers act alone, which act together, and what tuning within its bounds reached."
    hint = "lynxbench experiment run DESIGN && lynxbench push --server URL"
    return _page(server, "Experiments", lead, EXPERIMENTS, hint)


def fleet_page(server: Server) -> Page:
    """One contract on many machines."""
    lead = "The same contract on many machines: who differs, and in which layer."
    return _page(server, "Fleet", lead, FLEET, "lynxbench fleet run CONTRACT && lynxbench push --server URL")


def _page(server: Server, title: str, lead: str, marks: tuple[str, ...], hint: str) -> Page:
    kinds = [kind for kind in reading.known_kinds(server) if any(mark in kind for mark in marks)]
    found = reading.entries_of_kind(server, kinds, SHOWN) if kinds else []
    if not found:
        body: Child = empty("None is in this ledger yet. Where one was run: ", tag("code", hint))
        return make_page(title, lead, section("list", "List", body))
    rows: list[list[Child]] = [
        [
            tag("a", f"#{one.logged.seq}", href=f"/ledger/{one.logged.seq}"),
            words.moment_text(one.logged.entry.made_at),
            said(one.voice.name),
            said(say(one.logged.entry)),
        ]
        for one in found
    ]
    return make_page(
        title,
        lead,
        section("list", "List", table(f"{title}, newest first", ("Entry", "When", "By", "What"), rows)),
        *[_entry(one) for one in found[:10]],
    )


def _entry(one: Spoken) -> Safe:
    body = one.logged.entry.body
    document = body.model_dump(mode="json", by_alias=True)
    seq = one.logged.seq
    plain: list[list[Child]] = [
        [name.replace("_", " "), said(str(value))]
        for name, value in document.items()
        if isinstance(value, (str, int, float, bool)) and name != "kind"
    ]
    text = words.clean_lines(json.dumps(document, ensure_ascii=False, indent=2))
    return section(
        f"entry-{seq}",
        f"Entry {seq}: {body.kind.value}",
        table("What it says", ("Name", "Value"), plain) if plain else None,
        tag("details", tag("summary", "The whole entry"), tag("pre", tag("code", text[:LONGEST]), tabindex="0")),
    )
