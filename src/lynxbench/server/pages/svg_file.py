"""A plot as a file of its own: with its colours inside, and nothing that runs."""

from __future__ import annotations

import re

from lynxbench.report.palette import LIGHT, colour_rules
from lynxbench.report.render_html import asset

_BOX = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"')


def standalone_svg(markup: str) -> str:
    """The picture as an SVG document; `markup` is ours, so every text in it is escaped already."""
    style = (
        f"{colour_rules()}\n{asset('style.css')}\nsvg{{background:{LIGHT.colours['surface']}}}\n"
        "text{font-family:system-ui,sans-serif}"
    ).replace("]]>", "")
    size = _BOX.search(markup)
    box = f' width="{size[1]}" height="{size[2]}"' if size else ""
    opened = markup.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg"{box}', 1)
    first_end = opened.index(">") + 1
    return opened[:first_end] + f"<style><![CDATA[{style}]]></style>" + opened[first_end:]
