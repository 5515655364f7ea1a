"""A plot as a file of its own: with its colours inside, and nothing that runs."""

from __future__ import annotations

import re

from lynxbench.report.page import asset
from lynxbench.report.palette import LIGHT, colour_rules

_FIGURE = re.compile(r'<figure id="([a-z0-9-]+)">(.*?)</figure>', re.DOTALL)
_SVG = re.compile(r'<svg[^>]*class="plot wide".*?</svg>', re.DOTALL)
_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"')
_DATA_END = "</div></figure>"


def standalone_svg(markup: str) -> str:
    """The picture as an SVG document; `markup` is ours, so every text in it is escaped already."""
    style = (
        f"{colour_rules()}\n{asset('style.css')}\nsvg{{background:{LIGHT.surface}}}\n"
        "text{font-family:system-ui,sans-serif}"
    ).replace("]]>", "")
    size = _BOX.search(markup)
    box = f' width="{size[1]}" height="{size[2]}"' if size else ""
    opened = markup.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg"{box}', 1)
    first_end = opened.index(">") + 1
    return opened[:first_end] + f"<style><![CDATA[{style}]]></style>" + opened[first_end:]


def plots_in(markup: str) -> dict[str, str]:
    """The wide picture of every figure, by the figure's name."""
    found: dict[str, str] = {}
    for name, inner in _FIGURE.findall(markup):
        picture = _SVG.search(inner)
        if picture is not None:
            found[name] = picture.group(0)
    return found


def with_plot_links(markup: str, base: str) -> str:
    """The same markup with a link to every picture's own file beside its data."""

    def linked(match: re.Match[str]) -> str:
        whole = match.group(0)
        if _SVG.search(whole) is None or not whole.endswith(_DATA_END):
            return whole
        link = (
            f'<a href="{base}/{match.group(1)}.svg" download aria-label="Plot {match.group(1)} as SVG">Plot as SVG</a>'
        )
        return whole[: -len(_DATA_END)] + link + _DATA_END

    return _FIGURE.sub(linked, markup)
