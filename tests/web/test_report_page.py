"""The page of `specon report` in a browser: on each size of screen, light and dark, everybody can read it."""

import pytest

from specon_manager.model.transactions import TransactionState
from specon_manager.views.report import report_of
from specon_manager.views.report_page import page as page_of
from specon_manager.views.transactions import rows_of
from specon_manager.views.view import View
from support.decisions.scene import Scene
from support.watching.accessibility import findings

# All in the loop of the browser, which is started once.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the page of a dozen moves; some did not succeed."""
    scene = Scene()
    for number in range(12):
        name = scene.job(f"default/training-job-with-a-long-name-{number}")
        scene.running(name, step=3)
        ended = TransactionState.SUCCEEDED if number % 4 else TransactionState.ROLLED_BACK
        at = 600.0 * number
        scene.move(
            name, ended, id=f"move-{number}", at=at, ended_at=scene.began + at + 9, downtime=2.0 + number
        )
    view = View(state=scene.state, now=scene.began + 9000, transactions=rows_of(scene.state))
    report = report_of(view, view.transactions, {}, where="manager in jobs.specon", since=scene.began)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(report))
    return path


@pytest.mark.parametrize(
    ("width", "scheme"), [(390, "light"), (390, "dark"), (768, "dark"), (1440, "light"), (1440, "dark")]
)
async def test_the_report_fits_the_screen_and_everybody_can_read_it(browser, written, width, scheme):
    """No wider than the window, both pictures are drawn, and axe finds nothing serious."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = await context.new_page()
    await page.goto(written.as_uri())
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    assert await page.locator("svg rect").count() == 24
    assert await findings(page) == []
    await context.close()
