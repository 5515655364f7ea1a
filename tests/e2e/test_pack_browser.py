"""The procurement pack in a real browser: silent, without a network, and no wider than a desk or a phone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lynxbench.decide.deciding import Gathered, compare_cited
from lynxbench.decide.demonstrating import decide_demo, demo_results
from lynxbench.decide.pack_words import limitations_of, methodology_for
from lynxbench.model.packs import Pack
from lynxbench.report.documents.pack_document import compose_pack
from lynxbench.report.render_html import render_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PROBE = """<!doctype html><body>
<iframe id="desk" width="1280" height="900" src="pack.html"></iframe>
<iframe id="phone" width="390" height="900" src="pack.html"></iframe>
<script>
window.onload = () => {
  const say = (name) => {
    const frame = document.getElementById(name), page = frame.contentDocument, root = page.documentElement;
    const cut = [...page.querySelectorAll("[id^=part-] .scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1)
      .map((one) => one.getAttribute("aria-label")).join("+");
    return `${name}:overflow=${root.scrollWidth - root.clientWidth},cut=${cut},` +
      `requests=${frame.contentWindow.performance.getEntriesByType("resource").length};`;
  };
  document.body.dataset.answer = say("desk") + say("phone");
};
</script></body>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example's pack as a page."""
    results = demo_results()
    decisions = decide_demo(Gathered(results))
    pack = Pack(
        title="Should the chat service move to H200?",
        made_at="2026-11-15T08:00:00+00:00",
        lynxbench_version="0",
        decided_by="ML platform",
        decisions=decisions,
        comparison=compare_cited(results[:2], {}),
        results=results,
        standings=(),
        methodology=methodology_for(decisions),
        limitations=limitations_of(decisions, results),
    )
    made = tmp_path_factory.mktemp("pack")
    (made / "pack.html").write_text(render_html(compose_pack(pack)), encoding="utf-8")
    (made / "probe.html").write_text(PROBE, encoding="utf-8")
    return made


def browse(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    found = os.environ.get("LYNXBENCH_CHROMIUM") or next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        pytest.fail("no Chromium found: apt-get install chromium, or set LYNXBENCH_CHROMIUM to its path", pytrace=False)
    command = [found, *QUIET, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=4000", "--dump-dom"]
    done = subprocess.run(
        [*command, (folder / page).as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_it_opens_in_silence_and_fits(folder: Path) -> None:
    done = browse(folder, "probe.html")
    assert [line for line in done.stderr.splitlines() if ":CONSOLE" in line] == []
    answer = re.search(r'data-answer="([^"]+)"', done.stdout)
    assert answer is not None
    parts = answer.group(1).split(";")
    assert parts[0] == "desk:overflow=0,cut=,requests=0"
    assert re.fullmatch(r"phone:overflow=0,cut=.*,requests=0", parts[1])
