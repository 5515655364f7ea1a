"""A browser's window onto the server, signed in through its own form."""

from __future__ import annotations

from playwright.sync_api import Browser

from browsers import Look
from hosted import PASSWORD, World

NO_SUCCESS = "error: Failed to load resource: the server responded with a status of"
"""What the browser itself says about a page whose status is no success."""


class Visit(Look):
    """Somebody who looks at the shared page; nobody known where no name is given."""

    def __init__(
        self, browser: Browser, world: World, width: int = 1280, scheme: str = "light", name: str | None = None
    ) -> None:
        super().__init__(browser, width, 900, scheme, accept_downloads=True)
        self.base = f"http://127.0.0.1:{world.port}"
        if name is not None:
            self.page.goto(f"{self.base}/signin")
            self.page.get_by_label("Name").fill(name)
            self.page.get_by_label("Password").fill(PASSWORD)
            self.page.get_by_role("button", name="Sign in").click()
            self.page.wait_for_url(f"{self.base}/")
            world.calm()

    @property
    def elsewhere(self) -> list[str]:
        """What was asked of anybody else."""
        return [url for url in self.asked if not url.startswith((self.base, "data:", "blob:"))]

    def open(self, address: str) -> int:
        """Open a page; its status."""
        answer = self.page.goto(self.base + address)
        assert answer is not None
        return answer.status
