"""Escaping is the rule."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from lynxbench.report.markup import join, raw, tag


def test_plain_text_is_escaped_and_built_markup_is_not() -> None:
    assert tag("p", "<b>", tag("i", "x")) == "<p>&lt;b&gt;<i>x</i></p>"
    assert tag("p", [["a", None], raw("<br>")]) == "<p>a<br></p>"


def test_attributes() -> None:
    built = tag("a", class_="x", data_tip='"><script>', hidden=True, href=None, tabindex=0, x=1.5, y=2.0)
    assert built == '<a class="x" data-tip="&quot;&gt;&lt;script&gt;" hidden tabindex="0" x="1.5" y="2"></a>'


def test_void_elements_are_not_closed() -> None:
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


class Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, name: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(name)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    reader = Texts()
    reader.feed(join([tag("p", text, title=text), text]))
    reader.close()
    assert reader.tags == ["p"]
    assert [name for name, _ in reader.attributes] == ["title"]
