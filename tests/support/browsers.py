"""A real browser for pages: one program for many looks, everything it says or asks for is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""Any other host is answered by nothing: a page that fetched something from there would say so on the console."""


def find_browser() -> str:
    """The program's path; its absence is a failure, not a skip."""
    named = os.environ.get("LYNXBENCH_CHROMIUM")
    found = named or next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        pytest.fail("no Chromium found: apt-get install chromium, or set LYNXBENCH_CHROMIUM to its path", pytrace=False)
    return found


@contextmanager
def launched_browser(*reached: str) -> Iterator[Browser]:
    """A browser without a window and without a network; `reached` are other names of this machine."""
    offline = OFFLINE + "".join(f", EXCLUDE {name}" for name in reached)
    options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking", offline]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_browser(), args=options)
        try:
            yield browser
        finally:
            browser.close()


class Look:
    """A window of its own, with what its page said on the console and whom it asked for something."""

    def __init__(self, browser: Browser, width: int, height: int = 900, scheme: str = "light", **options: Any) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # type: ignore[arg-type]
            **options,
        )
        self.context.set_default_timeout(600_000)  # milliseconds; a busy machine takes its time
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def close(self) -> None:
        """Everything of it is gone."""
        self.context.close()
