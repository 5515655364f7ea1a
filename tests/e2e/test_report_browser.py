"""The report in a real browser: it opens without a network, says nothing on the console, and fits a desk and a phone.

A browser is needed; its absence is a failure, not a skip: `apt-get install chromium`, or LYNXBENCH_CHROMIUM=its path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.render_html import render_html
from report_cases import SHAPES

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
)
# Any host is answered by nothing: a page that fetched something would say so on the console.
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"

PROBE = """<!doctype html><title>probe</title><body>
<iframe id="page" width="{width}" height="900" src="page.html"></iframe>
<script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement, seen = frame.contentWindow;
  const visible = (one) => seen.getComputedStyle(one).display !== "none";
  const plots = [...page.querySelectorAll("svg.plot")].filter(visible);
  const small = [...page.querySelectorAll("svg.plot text")].filter((one) => one.getClientRects().length)
    .map((one) => one.getBoundingClientRect().height).filter((height) => height > 0 && height < 8).length;
  const outside = [...page.querySelectorAll("svg.plot text")].filter((one) => {{
    if (!one.getClientRects().length) return false;
    const own = one.getBoundingClientRect(), box = one.ownerSVGElement.getBoundingClientRect();
    return own.left < box.left - 3 || own.right > box.right + 3;
  }}).map((one) => one.textContent);
  const requests = seen.performance.getEntriesByType("resource").length;
  document.body.dataset.answer = JSON.stringify({{
    overflow: root.scrollWidth - root.clientWidth, plots: plots.length, narrow: plots.filter((one) =>
    one.classList.contains("narrow")).length, small, outside, requests,
    layers: page.querySelectorAll("#executor button").length, tips: page.querySelectorAll("[data-tip]").length,
    injected: page.querySelectorAll("img, script:not(:last-of-type)").length + (seen.hacked ? 1 : 0),
    ground: seen.getComputedStyle(page.body).backgroundColor }});
}};
</script></body>"""


def find_browser() -> str:
    named = os.environ.get("LYNXBENCH_CHROMIUM")
    found = named or next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        pytest.fail("no Chromium found: apt-get install chromium, or set LYNXBENCH_CHROMIUM to its path", pytrace=False)
    return found


def browse(
    folder: Path, *options: str, page: str = "page.html", dark: bool = False
) -> subprocess.CompletedProcess[str]:
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [find_browser(), *QUIET, OFFLINE, scheme, f"--user-data-dir={folder / 'profile'}", *options]
    done = subprocess.run(
        [*command, (folder / page).as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def said_on_console(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def write_page(folder: Path, shape: str) -> str:
    case = SHAPES[shape]()
    text = render_html(compose_result(case.result, case.processes, case.telemetry))
    (folder / "page.html").write_text(text, encoding="utf-8")
    return text


def read_png(file: Path) -> tuple[int, int, int]:
    """Width, height and how many different rows of pixels there are: a blank picture has one."""
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    rows = zlib.decompress(packed)
    stride = len(rows) // height
    return width, height, len({rows[i * stride : (i + 1) * stride] for i in range(height)})


@pytest.mark.parametrize(
    "shape", ["software-bound", "void", "throttled-gpu", "hostile", "all-unknown", "without-attribution"]
)
def test_it_opens_and_the_console_stays_silent(tmp_path: Path, shape: str) -> None:
    write_page(tmp_path, shape)
    done = browse(tmp_path, "--dump-dom")
    assert said_on_console(done) == []
    assert 'id="verdict"' in done.stdout
    assert "Open all layers" in done.stdout, "the page's own script did not run"


@pytest.mark.parametrize("shape", ["software-bound", "throttled-gpu", "hostile"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_fits_without_scrolling_sideways(tmp_path: Path, shape: str, width: int) -> None:
    write_page(tmp_path, shape)
    (tmp_path / "probe.html").write_text(PROBE.format(width=width), encoding="utf-8")
    done = browse(tmp_path, f"--window-size={width + 60},1000", "--dump-dom", page="probe.html")
    found = re.search(r'data-answer="([^"]*)"', done.stdout)
    assert found, done.stdout[-500:]
    answer = json.loads(
        found.group(1).replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    )
    assert answer["overflow"] <= 0
    assert answer["plots"] >= 8
    assert answer["narrow"] == (answer["plots"] if width < 720 else 0)
    assert answer["small"] == 0
    assert answer["requests"] == 0
    assert answer["injected"] == 0
    assert answer["tips"] > 100
    if shape != "hostile":  # a unit of forty letters may leave a plot's edge; the page still does not scroll
        assert answer["outside"] == []
    assert said_on_console(done) == []


def test_light_and_dark_are_two_pictures(tmp_path: Path) -> None:
    write_page(tmp_path, "software-bound")
    pictures = {}
    for name, dark in (("light", False), ("dark", True)):
        file = tmp_path / f"{name}.png"
        browse(tmp_path, "--window-size=1280,1400", f"--screenshot={file}", dark=dark)
        width, height, rows = read_png(file)
        assert (width, height) == (1280, 1400)
        assert rows > 300
        pictures[name] = file.read_bytes()
    assert pictures["light"] != pictures["dark"]


def test_a_phone_gets_a_picture(tmp_path: Path) -> None:
    write_page(tmp_path, "software-bound")
    file = tmp_path / "phone.png"
    browse(tmp_path, "--window-size=390,3000", f"--screenshot={file}")
    width, _, rows = read_png(file)
    assert width == 390
    assert rows > 600


def test_it_prints(tmp_path: Path) -> None:
    write_page(tmp_path, "software-bound")
    file = tmp_path / "report.pdf"
    browse(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={file}")
    data = file.read_bytes()
    assert data.startswith(b"%PDF")
    assert len(data) > 20_000


def test_the_policy_blocks_a_script_that_is_not_the_pages_own(tmp_path: Path) -> None:
    text = write_page(tmp_path, "software-bound")
    (tmp_path / "page.html").write_text(
        text.replace("</body>", '<script>document.title = "HACKED"</script></body>'), encoding="utf-8"
    )
    done = browse(tmp_path, "--dump-dom")
    assert "<title>HACKED</title>" not in done.stdout
    assert any("Content Security Policy" in line for line in said_on_console(done)), "the console is not captured"
