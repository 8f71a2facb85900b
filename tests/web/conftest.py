"""The status page in a real browser: Debian's Chromium, steered by Playwright; neither is downloaded here."""

import contextlib
import os
import shutil
import warnings
from pathlib import Path

import pytest
import pytest_asyncio

from support.watching.busy import busy_cluster
from support.watching.watched import TOKEN, WatchedCluster, page_of, served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

QUIET = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """Chromium without a window; each test has a profile of its own in it."""
    if CHROMIUM is None:
        pytest.skip("no browser: apt-get install chromium")
    playwright = pytest.importorskip("playwright.async_api", reason="no Playwright: pip install '.[dev]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        async with playwright.async_playwright() as steering:
            # As root there is no sandbox; and what a browser fetches of its own accord is no part of a test.
            flags = [*QUIET, *([] if os.geteuid() else ["--no-sandbox"])]
            opened = await steering.chromium.launch(executable_path=CHROMIUM, args=flags)
            yield opened
            await opened.close()


@pytest.fixture
def busy():
    """Return a cluster in which enough happens to look at."""
    return busy_cluster()


class Visit:
    """A page of the browser, what it asked for, and what it complained of."""

    def __init__(self, page, url, cluster, served_page):
        self.page, self.url, self.cluster, self.served = page, url, cluster, served_page
        self.requests, self.problems = [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)
        page.set_default_timeout(60_000)  # of a hang

    def _heard(self, message):
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)

    @property
    def link(self):
        return f"{self.url}#token={TOKEN}"

    async def open(self):
        await self.page.goto(self.link)
        await self.page.wait_for_selector("#content:not([hidden])")

    async def says(self, selector, words):
        """Wait until an element has these words; that it never has them fails the test."""
        await self.page.wait_for_function(
            "([selector, words]) => [...document.querySelectorAll(selector)]"
            ".some((each) => each.innerText.replaceAll(/\\s+/g, ' ').includes(words))",
            arg=[selector, words],
        )

    async def focused(self):
        return await self.page.evaluate("document.activeElement.innerText || document.activeElement.id")

    async def shot(self, name):
        """Take a picture, where somebody wants to look at them."""
        folder = os.environ.get("SPECON_SCREENSHOTS")
        if folder:
            await self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.fixture
def visit_to(browser):
    """Open a page on a cluster; whatever the browser complained of fails the test."""

    @contextlib.asynccontextmanager
    async def opened(cluster=None, *, complaints=(), **options):
        cluster = cluster or WatchedCluster()
        page = page_of(cluster)
        context = await browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        async with served(page) as url:
            visit = Visit(await context.new_page(), url, cluster, page)
            yield visit
            await context.close()
        unexpected = [text for text in visit.problems if not any(word in text for word in complaints)]
        assert unexpected == []

    return opened
