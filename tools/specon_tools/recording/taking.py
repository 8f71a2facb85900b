"""Takes pictures of the status page of a run, in Debian's Chromium, steered by Playwright."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Page, ViewportSize, sync_playwright

_SIZE: Final[ViewportSize] = {"width": 1440, "height": 860}
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_MARK: Final = "/page/#token="


class Pictures(NamedTuple):
    """The picture taken, as PNG."""

    frames: list[bytes]
    moving: bytes
    """The last frame on which a job was being moved; the last one where none was."""
    opened: bytes
    """In dark, with the row of a job opened that was moved before."""


@contextmanager
def running(command: Sequence[str], *, patience: float = 120.0) -> Iterator[str]:
    """Run a command that prints a link to its status page; yield that link, and end the run.

    Raises ValueError where the command prints none within `patience` seconds, or ends before.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        # A file, not a pipe: nobody reads it while the run goes on.
        with output.open("wb") as said, subprocess.Popen(command, stdout=said) as run:  # noqa: S603 - our own command
            try:
                yield _link(output, run, command, time.monotonic() + patience)
            finally:
                run.terminate()


def _link(output: Path, run: subprocess.Popen[bytes], command: Sequence[str], until: float) -> str:
    while True:
        over = run.poll() is not None or time.monotonic() > until
        text = output.read_text(errors="replace")
        for word in text.split():
            if _MARK in word:
                return word
        if over:
            raise ValueError(f"{shlex.join(command)} printed no link to a status page: {text}")
        time.sleep(0.2)


def take(link: str, *, seconds: float, every: float) -> Pictures:
    """Look at a page for so many seconds, or until its manager ends. Raises ValueError without a browser."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        raise ValueError("no browser: apt-get install chromium")
    with sync_playwright() as steering:
        flags = [] if os.geteuid() else ["--no-sandbox"]
        opened = steering.chromium.launch(executable_path=browser, args=["--disable-gpu", *flags])
        page = opened.new_page(viewport=_SIZE, color_scheme="light")
        page.goto(link)
        page.wait_for_selector("#content:not([hidden])")
        pictures = _watch(page, seconds, every)
        opened.close()
    return pictures


def _watch(page: Page, seconds: float, every: float) -> Pictures:
    frames: list[bytes] = []
    moving = dark = b""
    until = time.monotonic() + seconds
    while time.monotonic() < until and page.locator("#connection").inner_text() != "ended":
        began = time.monotonic()
        frames.append(page.screenshot())
        if page.locator("#moves li.move").count():
            moving = frames[-1]
        elif page.locator("#jobs .in-moves:not(:empty)").count() and not dark:
            dark = _open(page)
        sys.stderr.write(f"\r{len(frames)} pictures, {max(0.0, until - time.monotonic()):.0f} s left ")
        time.sleep(max(0.0, every - (time.monotonic() - began)))
    sys.stderr.write("\n")
    return Pictures(frames, moving or frames[-1], dark or frames[-1])


def _open(page: Page) -> bytes:
    """Return a dark picture of the row of a job that was moved, and leave the page as it was."""
    page.emulate_media(color_scheme="dark")
    opener = page.locator("#jobs tbody:has(.in-moves:not(:empty)) .opener").first
    opener.click()
    page.wait_for_selector(".log .lines:not([hidden])")
    page.evaluate("document.getElementById('jobs-title').scrollIntoView()")
    found = page.screenshot()
    opener.click()
    page.evaluate("scrollTo(0, 0)")
    page.emulate_media(color_scheme="light")
    return found


def write(folder: Path, name: str, content: bytes) -> None:
    """Write a picture, and say so."""
    path = folder / name
    path.write_bytes(content)
    sys.stdout.write(f"written: {path} ({len(content) / 1000:.0f} kB)\n")
