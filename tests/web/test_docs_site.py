"""The documentation in a browser: on each size of screen, light and dark, everybody can read it."""

import subprocess
import sys

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.packaging.documents import ROOT
from support.watching.accessibility import findings

# All in the loop of the browser, which is started once.
pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = ("index", "faq", "metrics", "kubernetes")
"""One with lists, one with terms, one with pictures and wide tables, one with long commands."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)
    return folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(browser, built):
    """Serve the site on loopback; yield its address."""
    del browser  # without one nothing is served
    application = web.Application()
    application.router.add_static("/", built)
    server = TestServer(application)
    await server.start_server()
    yield f"http://127.0.0.1:{server.port}"
    await server.close()


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (768, "dark"), (1440, "light"), (1440, "dark")]
)
async def test_the_docs_fit_the_screen_and_everybody_can_read_them(browser, site, width, scheme):
    """No page is wider than the window, and axe finds nothing serious."""
    context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = await context.new_page()
    for name in PAGES:
        await page.goto(f"{site}/{name}.html")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert await findings(page) == [], name
    await context.close()
