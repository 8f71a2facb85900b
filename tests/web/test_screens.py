"""The status page on each size of screen, light and dark: all of it is there, and everybody can use it."""

import itertools

import pytest

from specon_manager.views.log_tail import LogTail
from support.decisions.crowds import crowd
from support.watching.accessibility import findings
from support.watching.busy import GANG, moved, with_moving_gang
from support.watching.watched import WatchedCluster

# All in the loop of the browser, which is started once.
pytestmark = pytest.mark.asyncio(loop_scope="module")

JOBS = "document.querySelector('#jobs').parentElement"
CUT_OFF = """() => [...document.querySelectorAll("#jobs .row > *, .figure *, .node *, .move *")]
    .filter((each) => each.offsetParent && !each.closest(".unseen") && !each.classList.contains("unseen"))
    .map((each) => [each.className || each.tagName, each.getBoundingClientRect()])
    .filter(([, box]) => box.right > innerWidth + 0.5 || box.left < -0.5)
    .map(([name]) => name)"""


async def _tail(replica):
    lines = tuple(f"step={number}/1500 loss=24.{number} " + "x" * 200 for number in range(40))
    return LogTail(path=f"/a/folder/with/a/long/name/{replica}/train.log", lines=lines, more=True)


@pytest.mark.parametrize(
    ("width", "scheme"),
    [*itertools.product([390, 768, 1440], ["light", "dark"]), (1385, "light")],  # narrowest with two columns
)
async def test_it_fits_the_screen_and_everybody_can_use_it(visit_to, busy, width, scheme):
    """Nothing is wider than the window or cut off by it, and axe finds nothing serious, rows opened."""
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with visit_to(with_moving_gang(moved(busy)), **options) as visit:
        visit.served.show_logs(_tail)
        await visit.open()
        await visit.says("#jobs .row", "converged")
        await visit.shot(f"width-{width}-{scheme}")
        await visit.page.locator(f"tbody[data-name='{GANG}'] .opener").click()
        await visit.page.locator("tbody[data-name='default/gru-1/worker/0'] .opener").click()
        await visit.page.wait_for_selector(".log .lines:not([hidden])")
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert await visit.page.evaluate(CUT_OFF) == []
        assert await visit.page.evaluate(f"{JOBS}.scrollWidth <= {JOBS}.clientWidth")
        assert await findings(visit.page) == []
        await visit.shot(f"width-{width}-{scheme}-open")


async def test_a_phone_shows_state_and_curve_of_each_job(visit_to, busy):
    """A card for each job, in which nothing has to be scrolled sideways; sorting stays in reach."""
    async with visit_to(busy, viewport={"width": 390, "height": 800}) as visit:
        await visit.open()
        row = visit.page.locator("tbody[data-name='default/vae-1/worker/0'] .row")
        for part in (".in-state", ".in-curve svg", ".in-step", ".label"):
            box = await row.locator(part).bounding_box()
            assert box is not None, part
            assert 0 <= box["x"] < box["x"] + box["width"] <= 390, part
        assert await visit.page.evaluate(f"{JOBS}.scrollWidth <= {JOBS}.clientWidth")
        await visit.page.locator("th[data-column=state] button").click()
        assert await visit.page.locator("th[data-column=state]").get_attribute("aria-sort") == "ascending"


async def test_long_lists_are_scrolled_by_keyboard(visit_to, busy):
    """The decisions are a stop of the Tab key with a name, as soon as there is more than their room."""
    async with visit_to(busy) as visit:
        await visit.open()
        region = visit.page.get_by_role("region", name="Last decisions").last
        assert await region.get_attribute("tabindex") is None
        for number in range(12):
            busy.submit(f"more-{number}")
        busy.tick()
        await visit.page.wait_for_selector(
            ".scroll.some[tabindex='0'] #decisions, .scroll.some[tabindex='0'] #queue"
        )
        held = visit.page.locator(".scroll.some[tabindex='0']").first
        await held.focus()
        await visit.page.keyboard.press("End")
        await visit.page.wait_for_function("() => document.activeElement.scrollTop > 0")
        assert await held.get_attribute("aria-labelledby")


async def test_the_login_can_be_used_by_everybody(visit_to, busy):
    """Also where nobody has a token yet."""
    async with visit_to(busy) as visit:
        await visit.page.goto(visit.url)
        await visit.page.wait_for_selector("#login:not([hidden])")
        assert await findings(visit.page) == []


async def test_a_large_cluster_can_be_used_by_everybody(visit_to):
    """Lists of hundreds of nodes and rows scroll in their frames, and Tab reaches them."""
    cluster = WatchedCluster()
    cluster.state = crowd(700)
    async with visit_to(cluster, viewport={"width": 1440, "height": 900}) as visit:
        await visit.open()
        names = await visit.page.eval_on_selector_all(
            ".scroll[tabindex='0']", "all => all.map((each) => each.getAttribute('aria-labelledby'))"
        )
        assert {"nodes-title", "jobs-title"} <= set(names)
