"""A real browser without a window, and `foil view` or `foil label` as a process that tests may kill."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import REPO

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def headless() -> Iterator[Any]:
    """A browser; skips the test where there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is absent; scripts/setup-chromium installs it")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is absent; make setup installs it")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page of its own context; `faults` are requests that leave this machine, and what the console complains of."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.faults: list[str] = []
        self.page = browser.new_context(**options).new_page()
        self.page.on("request", self._asked)
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog {dialog.message}"))

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "file:///", "data:")):
            self.faults.append(request.url)

    def overflows(self) -> bool:
        """Whether the page is wider than its window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


class DeskProcess:
    """`foil COMMAND OUT ...` as a process; `url` is what it printed."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "foil", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(REPO)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPO, env=environment
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            _, words = self.process.communicate()
            raise AssertionError(f"no URL: {words}")

    @property
    def base(self) -> str:
        """The address without page and token."""
        return "/".join(self.url.split("/")[:3])

    def kill(self) -> None:
        """kill -9, and no process of it is left."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def desk_process(*arguments: object) -> Iterator[DeskProcess]:
    """A DeskProcess that ends with the block."""
    started = DeskProcess(*arguments)
    try:
        yield started
    finally:
        started.kill()
