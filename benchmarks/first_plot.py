"""How soon a plot of 5,000 results can be touched, and what it weighs, in a real Chromium; beside uPlot where given.

    python benchmarks/first_plot.py [--points 5000] [--rounds 9] [--uplot FOLDER]

FOLDER is an unpacked npm package of uPlot (its dist/uPlot.iife.min.js is taken). Both pages hold the same moments,
figures and intervals inside themselves, are read from a file and opened in turn, each in a fresh window. Counted is
from the end of the response to the second frame after the plot is in the page (reading the page, the script, the data,
drawing), from the page's load event to that frame (a plot that is there before the event counts as 0), and the time
that the page's thread computed until then, to which others on the machine do not add. Bars: 300 ms for the last two,
150 kB of script.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from playwright.sync_api import Browser

from browsers import Look, launched_browser
from lynxbench.model.history import History, HistoryPoint
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.report.documents.history_document import compose_history
from lynxbench.report.render_html import asset, page_script, render_html

BAR_MS, BAR_BYTES = 300.0, 150_000
WATCH = """
  const look = new MutationObserver(() => {
    if (window.drawnAt || !document.querySelector("svg.touched path.dots, .uplot canvas")) return;
    requestAnimationFrame(() => requestAnimationFrame(() => { window.drawnAt ||= performance.now(); }));
  });
  look.observe(document, { childList: true, subtree: true });
"""
TOOK = "() => window.drawnAt - performance.getEntriesByType('navigation')[0].responseEnd"


LOADED = "() => Math.max(0, window.drawnAt - performance.getEntriesByType('navigation')[0].loadEventEnd)"


class Opened(NamedTuple):
    """What one opening took."""

    wall_ms: float
    after_load_ms: float
    cpu_ms: float


def history_of(many: int) -> History:
    """A series of two executors with a step, an hour between results."""
    rng = np.random.default_rng(7)
    layers = dict.fromkeys(Layer, "0" * 64)
    points = []
    for index in range(many):
        level = (100.0 if index < many // 2 else 91.0) * float(np.exp(rng.normal(0, 0.01)))
        points.append(
            HistoryPoint.model_construct(
                result_id=f"{index:064x}",
                started_at=f"{np.datetime64('2026-01-01T00:00:00') + np.timedelta64(index, 'h')}+00:00",
                executor_id=f"{index % 2:064x}",
                instance_id="1" * 64,
                layer_ids=layers,
                weights=None,
                run_means=(level,) * 5,
                estimate=level,
                low=level * 0.985,
                high=level * 1.015,
                unit="tokens/s",
                doubtful=index % 97 == 0,
                agreement="",
                cause="",
            )
        )
    return History.model_construct(
        contract_id="ab" * 32,
        contract="first plot",
        precision=Precision.FP32,
        unit="tokens/s",
        points=tuple(points),
        left_out=(),
        changes=(),
        note="a series",
    )


def peer_page(history: History, folder: Path) -> tuple[str, int]:
    """The same series drawn by uPlot, intervals as a band: it has no error bars of its own."""
    library = (folder / "dist" / "uPlot.iife.min.js").read_text(encoding="utf-8")
    style = (folder / "dist" / "uPlot.min.css").read_text(encoding="utf-8")
    moments = [int(np.datetime64(point.started_at[:19]).astype(int)) for point in history.points]
    columns = ("estimate", "low", "high")
    data = [moments, *([round(getattr(point, name), 4) for point in history.points] for name in columns)]
    draw = (
        "new uPlot({width: 1000, height: 250, series: [{}, {label: 'estimate', stroke: 'blue', width: 0, "
        "points: {show: true}}, {label: 'low', stroke: 'gray'}, {label: 'high', stroke: 'gray'}], "
        "bands: [{series: [3, 2], fill: '#ccc'}]}, JSON.parse(document.getElementById('data').textContent), "
        "document.getElementById('plot'));"
    )
    page = (
        f"<!doctype html><html><head><style>{style}</style></head><body><div id=plot></div>"
        f"<script type='application/json' id=data>{json.dumps(data)}</script><script>{library}</script>"
        f"<script>{draw}</script></body></html>"
    )
    return page, len(library.encode())


def opened(browser: Browser, file: Path) -> Opened:
    """To the first frame with a plot; and what the page's thread computed for it, which others do not slow."""
    look = Look(browser, 1280)
    try:
        meter = look.context.new_cdp_session(look.page)
        meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        look.page.add_init_script(WATCH)
        look.page.goto(file.as_uri())
        look.page.wait_for_function("() => window.drawnAt")
        figures = {row["name"]: row["value"] for row in meter.send("Performance.getMetrics")["metrics"]}
        wall_ms, after_load_ms = (float(look.page.evaluate(what)) for what in (TOOK, LOADED))
        return Opened(wall_ms, after_load_ms, figures["TaskDuration"] * 1e3)
    finally:
        look.close()


def main() -> None:
    """Print the medians; the exit code is 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--uplot", type=Path)
    options = parser.parse_args()
    history = history_of(options.points)
    pages = {"own script": (render_html(compose_history(history)), len(page_script().encode()))}
    if options.uplot:
        pages["uPlot"] = peer_page(history, options.uplot)
    took: dict[str, list[Opened]] = {name: [] for name in pages}
    with tempfile.TemporaryDirectory() as folder, launched_browser() as browser:
        for _ in range(options.rounds):
            for name, (text, _) in pages.items():
                file = Path(folder) / "page.html"
                file.write_text(text, encoding="utf-8")
                took[name].append(opened(browser, file))
    median = {name: Opened(*map(statistics.median, zip(*each, strict=True))) for name, each in took.items()}
    for name, (text, script) in pages.items():
        wall, after_load, cpu = median[name]
        said = f"first plot after {wall:.0f} ms, {after_load:.0f} ms after the load event; {cpu:.0f} ms of computing"
        print(f"{name}: {options.points} points, {said}; ", end="")
        print(f"script {script / 1e3:.1f} kB, page {len(text.encode()) / 1e6:.2f} MB")
    print(f"style {len(asset('style.css')) / 1e3:.1f} kB; load of the machine {os.getloadavg()[0]:.1f}")
    ours = median["own script"]
    sys.exit(int(max(ours.cpu_ms, ours.after_load_ms) > BAR_MS or pages["own script"][1] > BAR_BYTES))


if __name__ == "__main__":
    main()
