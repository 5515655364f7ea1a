"""The page: well-formed, self-contained, accessible, small, and nobody's text is markup."""

from __future__ import annotations

import csv
import io
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.report.doc import Plot, Report, Table, link, refer
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.markup import tag
from lynxbench.report.render_html import HtmlRenderer, asset, glossary, page_script, render_html
from report_samples import process

VOID = {"meta", "br", "hr", "img", "link", "input"}
LARGEST_BYTES = 1_500_000
ALLOWED_SCRIPTS = 1


class Page(HTMLParser):
    """Reads a page and refuses what is not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [key for key, _ in attrs]
        assert len(names) == len(set(names)), (name, names)
        self.tags.append((name, dict(attrs)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open, f"</{name}> closes nothing"
        assert self.open[-1] == name, f"</{name}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text += data + "\n"

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def page_of(result: Result, processes: tuple[CountedProcess, ...], telemetry: Telemetry | None) -> str:
    return render_html(compose_result(result, processes, telemetry))


@pytest.fixture(scope="module")
def pages(build) -> dict[str, str]:
    cases = {name: make() for name, make in build.SHAPES.items()}
    return {name: page_of(case.result, case.processes, case.telemetry) for name, case in cases.items()}


def test_well_formed(pages: dict[str, str], shape: str) -> None:
    page = Page(pages[shape])
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["href"] for a in page.all("a") if (a["href"] or "").startswith("#")}
    assert {target[1:] for target in targets if target} <= set(ids)


def test_nothing_is_fetched(pages: dict[str, str], shape: str) -> None:
    page = Page(pages[shape])
    for name, attributes in page.tags:
        assert "src" not in attributes, name
        assert "style" not in attributes, name
        assert not any(key.startswith("on") for key in attributes), (name, attributes)
        for key in ("href", "action", "xlink:href", "data", "poster"):
            link = attributes.get(key)
            assert link is None or link.startswith(("#", "data:text/csv")), link
    assert {"link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(name for name, _ in page.tags)
    assert len(page.all("script")) == ALLOWED_SCRIPTS
    own = re.sub(r"https://evil\.example|https%3A//evil\.example", "", pages[shape])
    assert not re.search(r"https?://|url\(|@import", own)


def test_the_policy_allows_only_the_pages_own_script_and_style(pages: dict[str, str]) -> None:
    policy = next(a["content"] for a in Page(pages["void"]).all("meta") if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_hostile_text_is_only_text(pages: dict[str, str], build) -> None:
    page = Page(pages["hostile"])
    assert "<script>alert('x')</script>" in page.text
    assert "<script>alert" not in pages["hostile"]
    assert "onerror" not in {key for _, attributes in page.tags for key in attributes}
    assert not re.search(r"<img", pages["hostile"])
    assert "\x1b" not in pages["hostile"]
    assert "\u202e" not in pages["hostile"]


def test_verdict_comes_first_and_sections_in_order(pages: dict[str, str]) -> None:
    ids = [a["id"] for a in Page(pages["software-bound"]).all("section")]
    assert ids == [
        "verdict", "figures", "questions", "counted", "plots", "time", "executor", "context", "evidence",
    ]  # fmt: skip


def test_headings_descend_by_one(pages: dict[str, str], shape: str) -> None:
    levels = [int(name[1]) for name, _ in Page(pages[shape]).tags if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_tables_and_pictures_speak(pages: dict[str, str], shape: str) -> None:
    page = Page(pages[shape])
    assert all(a.get("scope") in {"col", "row"} for a in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    pictures = page.all("svg")
    assert all(a.get("role") == "img" and a.get("aria-label") for a in pictures)
    assert pages[shape].count("<desc>") == sum("plot" in (a.get("class") or "") for a in pictures)
    assert page.all("html")[0]["lang"] == "en"


def test_figures_carry_precision_batch_load_and_interval(pages: dict[str, str]) -> None:
    text = Page(pages["software-bound"]).text.replace("\u00a0", " ")
    assert "batch 1, closed loop, 1 at a time, 64 in / 128 out" in text
    assert "95 % interval 18.6 to 19.2" in text
    assert "Looser than the default protocol" in text
    assert "skipped: emulated on this CPU" in text


def test_void_shows_no_figures(pages: dict[str, str]) -> None:
    page = Page(pages["void"])
    text = page.text.replace("\u00a0", " ")
    assert "no figure of this run may be used" in text
    for figure in ("18.9", "27.1", "20.4", "15.21", "52.8", "61.0"):
        assert figure not in text
        assert figure not in " ".join(a.get("aria-label") or "" for _, a in page.tags)
    rates = [unquote(a["href"] or "") for a in page.all("a") if "rate-" in (a.get("download") or "")]
    assert rates
    for rate in rates:
        rows = list(csv.DictReader(io.StringIO(rate.partition(",")[2])))
        assert np.median([float(row["% of the process’s own middle"]) for row in rows]) == pytest.approx(100, abs=1)


def test_every_plot_offers_its_data(pages: dict[str, str]) -> None:
    page = Page(pages["software-bound"])
    assert len(page.all("figure")) >= 8
    links = [a for a in page.all("a") if (a["href"] or "").startswith("data:")]
    assert len(links) == len(page.all("figure"))
    for anchor in links:
        body = unquote((anchor["href"] or "").partition(",")[2])
        rows = list(csv.reader(io.StringIO(body)))
        assert len(rows) >= 2
        assert len({len(row) for row in rows}) == 1


def test_nine_layers_with_their_owners(pages: dict[str, str]) -> None:
    page = Page(pages["software-bound"])
    shown = [a["class"] for a in page.all("details") if (a.get("class") or "").startswith("layer ")]
    assert shown == [f"layer layer-{layer}" for layer in Layer]
    for owner in ("ML research", "platform SRE", "facilities", "procurement"):
        assert owner in page.text


def test_every_category_with_time_is_in_the_legend(pages: dict[str, str], build) -> None:
    shares = build.base_result().attribution.shares
    text = Page(pages["software-bound"]).text
    assert all(category.value.replace("_", " ") in text for category in Category if shares.get(category, 0) > 0)


def test_throttling_is_drawn_and_named(pages: dict[str, str]) -> None:
    assert 'class="throttle"' in pages["throttled-gpu"]
    text = Page(pages["throttled-gpu"]).text
    assert "gpu0 software power cap" in text
    assert "Changed during the run" in text


def test_nothing_prints_nan(pages: dict[str, str], shape: str) -> None:
    assert not re.search(r"\b(nan|NaN|inf|None)\b", Page(pages[shape]).text)
    assert not re.search(r'(?:x|y|d|width|height|points)="[^"]*nan', pages[shape])


def test_a_hundred_thousand_samples_stay_small(build) -> None:
    made = tuple(
        process(i, "fp32", rate=20_000.0, seconds=16, start_ns=i * 20_000_000_000, tokens=16, seed=i) for i in range(5)
    )
    assert sum(len(one.samples.iterations) for one in made) >= 100_000
    seen = build.telemetry(20_000.0, gpu=True)
    assert len(seen.at_ns) == 40_000
    text = page_of(build.base_result(), made, seen)
    assert len(text.encode()) < LARGEST_BYTES


def test_empty_processes_and_telemetry_are_survived(build) -> None:
    from lynxbench.model.samples import CountedProcess, Iterations, Marks, ProcessSamples, Telemetry

    none = np.zeros(0, dtype=np.int64)
    empty = ProcessSamples(0, "fp32", (0, 10), (10, 20), Iterations(none, none, none), Marks(none, none))
    text = page_of(build.base_result(), (CountedProcess(empty, np.zeros(0, dtype=np.int8)),), Telemetry(none, {}))
    Page(text)
    assert "No telemetry was read" in text


def test_the_same_result_gives_the_same_page(build) -> None:
    case = build.software_bound()
    assert page_of(case.result, case.processes, case.telemetry) == page_of(case.result, case.processes, case.telemetry)


def test_references_lead_somewhere_on_the_server_alone() -> None:
    table = Table(("Result", "On"), [(refer("results", "ab" * 32), link("below", "#there"))], "Results")
    file, site = HtmlRenderer().blocks([table]), HtmlRenderer(site=True).blocks([table])
    assert 'href="/results/' not in file
    assert f'<a href="/results/{"ab" * 32}"><code>{"ab" * 6}</code></a>' in site
    assert '<a href="#there">below</a>' in file


def test_plots_of_the_server_are_files_as_well() -> None:
    plot = Plot("rate", "Rate", "how fast", lambda title, width: tag("svg", title, width=width), ("a", "b"), [(1, 2.0)])
    renderer = HtmlRenderer(site=True, plots_at="/results/x/plots")
    text = renderer.blocks([plot])
    assert 'href="/results/x/plots/rate.svg"' in text
    assert renderer.pictures == {"rate": '<svg width="920">Rate</svg>'}
    assert "/plots/" not in HtmlRenderer().blocks([plot])


def test_a_row_of_words_takes_the_place_of_its_figures() -> None:
    text = render_html(Report("x", (Table(("a", "b", "c"), [("bf16", "skipped")], right=(1, 2)),)))
    assert '<tr><th scope="row">bf16</th><td colspan="2" class="note">skipped</td></tr>' in text


def test_a_heading_of_the_glossary_explains_itself_in_the_words_of_the_glossary() -> None:
    table = Table(("Validity", "Layers", "Nothing of it"), [("a", "b", "c")], "t")
    page = HtmlRenderer().blocks([table])
    assert page.count('class="term"') == 2
    assert "what all doubts come to" in page
    text = (Path(__file__).resolve().parents[3] / "docs" / "glossary.md").read_text(encoding="utf-8")
    written = {
        word.lower(): meaning.replace("`", "").replace("*", "")
        for words, meaning in re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", text, re.MULTILINE)
        for word in words.split(", ")
    }
    assert len(glossary()) > 30
    assert {word: written.get(word) for word in glossary()} == glossary()


def test_scripts_and_styles_of_a_page_are_light() -> None:
    assert len(page_script().encode()) < 60_000, "150 kB are allowed"
    assert len(asset("style.css").encode()) < 30_000
