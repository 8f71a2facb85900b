"""The status page in a browser: what it shows, that it is live, and that everybody can use it."""

from urllib.parse import urlsplit

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.transactions import Kind, Request
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import changing, ended
from support.decisions.crowds import crowd
from support.watching.busy import moved, with_moving_gang
from support.watching.watched import TOKEN, WatchedCluster

# All in the loop of the browser, which is started once.
pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"


async def test_it_shows_nodes_jobs_queue_moves_and_decisions(visit_to, busy):
    """Each with its words and its reasons."""
    async with visit_to(moved(busy)) as visit:
        await visit.open()
        await visit.says("#nodes .node", "node-0")
        await visit.says("#nodes .node .chip", "vae-1")
        await visit.says("#nodes .chip.arriving", "vae-1")
        await visit.says("#jobs .row", "converged")
        await visit.says("#jobs .row", "diverging")
        await visit.says("#jobs .row", "390 / 800")
        await visit.says("#queue", "waits")
        await visit.says("#queue", "trial")
        await visit.says("#moves", "node-0 → node-2")
        await visit.says("#moves .now", "stopping")
        await visit.says("#moves .why", "for maintenance")
        await visit.says("#decisions", "start on node-")
        await visit.says("#words", "watching 1")
        assert await visit.page.locator("#jobs .spark .line").count() >= 4
        await visit.shot("busy-light")


async def test_it_is_live(visit_to, busy):
    """A move goes from state to state, a category changes, and a listener hears of the move; no reload."""
    async with visit_to(busy) as visit:
        await visit.open()
        await visit.says("#moves", "Nothing is being moved or changed.")
        moved(busy)
        await visit.says("#moves .now", "stopping")
        await visit.says("#said", "vae-1 is being moved from node-0 to node-2.")
        assert await visit.page.title() == "specon: 1 moving"
        busy.may_carry_out = lambda order: True
        busy.carry_out()
        await visit.says("#moves .now", "proving")
        busy.tell("default/vae-1/worker/0", 0.19, step=400, category=Category.CONVERGED)
        await visit.says("#ended", "succeeded · downtime 1.0 s")
        await visit.says("#said", "The move of vae-1 succeeded")
        await visit.says("#moves", "Nothing is being moved or changed.")
        assert await visit.page.locator("#jobs .moved").count() == 1
        busy.tell("default/gru-1/worker/0", 0.7, step=500, category=Category.CONVERGED)
        await visit.says("#words", "converged 2")


async def test_it_is_used_by_keyboard_alone(visit_to, busy):
    """Skip link, sorting, filter, rows and chips: each is reached, and does what it says."""
    async with visit_to(busy) as visit:
        await visit.open()
        keys = visit.page.keyboard
        await keys.press("Tab")
        assert await visit.focused() == "Skip to the jobs"
        await keys.press("Enter")
        await visit.says(":focus", "Jobs")
        await keys.press("Tab")
        assert await visit.focused() == "search"
        await keys.type("g")
        await visit.page.wait_for_function("document.querySelectorAll('#jobs .row').length === 2")
        await keys.press("Tab")
        assert (await visit.focused()).strip() == "Job"
        await keys.press("Enter")
        assert await visit.page.locator("th[data-column=job]").get_attribute("aria-sort") == "ascending"
        await visit.page.locator("tbody .opener").first.focus()
        assert "gan-2" in await visit.focused()
        await keys.press("ArrowDown")
        assert "gru-1" in await visit.focused()
        await keys.press("Enter")
        await visit.says(".detail", "default/gru-1/worker/0")
        assert await visit.page.locator(".opener[aria-expanded=true]").count() == 1
        await keys.press("Escape")
        assert await visit.page.locator(".detail").count() == 0
        assert "gru-1" in await visit.focused()


async def test_nodes_are_one_stop_of_the_tab_key(visit_to, busy):
    """Arrows go from job to job, and Enter on one opens its row."""
    async with visit_to(busy) as visit:
        await visit.open()
        await visit.page.wait_for_selector("#nodes button[tabindex='0']")
        assert await visit.page.locator("#nodes button[tabindex='0']").count() == 1
        await visit.page.locator("#nodes button[tabindex='0']").focus()
        first = await visit.focused()
        await visit.page.keyboard.press("ArrowRight")
        assert await visit.focused() != first
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".detail")
        assert await visit.page.evaluate("document.activeElement.className") == "opener"


async def test_an_update_leaves_the_focus_where_it_is(visit_to, busy):
    """And the row that is open, and what is typed, though its numbers change."""
    async with visit_to(busy) as visit:
        await visit.open()
        opener = visit.page.locator("tbody[data-name='default/gru-1/worker/0'] .opener")
        await opener.press("Enter")
        busy.tell("default/gru-1/worker/0", 0.123456, step=450, total_steps=800)
        await visit.says("#jobs .row", "450 / 800")
        assert "gru-1" in await visit.focused()
        await visit.says(".detail figcaption", "to 0.1235")
        await visit.shot("open-row")


async def test_a_word_is_a_filter(visit_to, busy):
    """Pressed, the table has only those; pressed again, all."""
    async with visit_to(busy) as visit:
        await visit.open()
        chip = visit.page.locator("#words .chip", has_text="diverging")
        await chip.click()
        await visit.page.wait_for_function("document.querySelectorAll('#jobs .row').length === 1")
        assert await chip.get_attribute("aria-pressed") == "true"
        await chip.click()
        await visit.page.wait_for_function("document.querySelectorAll('#jobs .row').length === 5")


async def test_it_is_dark_where_the_system_is_and_where_one_wants_it(visit_to, busy):
    """By the system's preference, or by the button, which is remembered."""

    async def background(visit):
        return await visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    async with visit_to(moved(busy), color_scheme="dark") as visit:
        await visit.open()
        dark = await background(visit)
        await visit.shot("busy-dark")
        await visit.page.emulate_media(color_scheme="light")
        light = await background(visit)
        assert max(map(int, dark[4:-1].split(", "))) < 50
        assert min(map(int, light[4:-1].split(", "))) > 200
        button = visit.page.locator("#theme")
        await button.click()
        assert await button.inner_text() == "Theme: light"
        await button.click()
        assert await background(visit) == dark
        await visit.page.reload()
        assert await background(visit) == dark
        assert await button.inner_text() == "Theme: dark"


async def test_signs_differ_in_shape_and_stand_beside_words(visit_to, busy):
    """Without any colour each category is still told apart."""
    async with visit_to(busy) as visit:
        await visit.open()
        shapes = await visit.page.eval_on_selector_all(
            "#words .chip",
            "chips => chips.map(c => [c.querySelector('path').getAttribute('d'), c.innerText])",
        )
        assert len({shape for shape, _ in shapes}) == len(shapes) >= 4
        assert all(text.strip() for _, text in shapes)
        svg = visit.page.locator("#jobs .spark").first
        assert "loss from 2.3000 to 0.2000" in (await svg.get_attribute("aria-label") or "")


async def test_text_from_logs_stays_text(visit_to):
    """The page shows the HTML that a trainer writes as text, and runs no part of that HTML."""
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.tell(a, 1.0, step=1, reason=HOSTILE)
    async with visit_to(cluster) as visit:
        await visit.open()
        await visit.page.locator("tbody .opener").press("Enter")
        await visit.says(".detail", "<img src=x onerror=")
        assert await visit.page.title() == "specon"


async def test_the_policy_holds_against_what_could_still_slip_in(visit_to):
    """Inline scripts do not run, HTML in text is refused by the browser, and nothing goes elsewhere."""
    async with visit_to(complaints=("Content Security Policy", "TrustedHTML", "Trusted")) as visit:
        await visit.open()
        ran = await visit.page.evaluate(
            """() => {
                try { document.body.innerHTML = "<b>x</b>"; return "html"; } catch { /* as it should be */ }
                try {
                    const script = document.createElement("script");
                    script.textContent = "window.ran = true";
                    document.body.append(script);
                } catch { /* as well */ }
                return window.ran ?? "nothing";
            }"""
        )
        assert ran == "nothing"
        reached = await visit.page.evaluate(
            "fetch('http://127.0.0.2:9/', {mode: 'no-cors'}).then(() => 'reached', () => 'refused')"
        )
        assert reached == "refused"
        assert any("Content Security Policy" in text for text in visit.problems)


async def test_nothing_comes_from_elsewhere(visit_to, busy):
    """Every request goes to the manager itself: the page works offline."""
    async with visit_to(busy) as visit:
        await visit.open()
        assert {urlsplit(url).netloc for url in visit.requests} == {urlsplit(visit.url).netloc}


async def test_the_token_leaves_the_address_bar_and_is_sent_in_no_address(visit_to, busy):
    """It is kept for the tab, so the page can be loaded again, and it is no cookie."""
    async with visit_to(busy) as visit:
        await visit.open()
        assert visit.page.url == visit.url
        await visit.page.reload()
        await visit.page.wait_for_selector("#content:not([hidden])")
        assert not any(TOKEN in url.partition("#")[0] for url in visit.requests)
        assert await visit.page.context.cookies() == []
        assert await visit.page.evaluate("localStorage.getItem('specon-token')") is None


async def test_without_a_token_it_asks_for_one(visit_to, busy):
    """A wrong one is refused in words, the right one opens the page, and jobs are not shown before."""
    async with visit_to(busy, complaints=("403",)) as visit:
        await visit.page.goto(visit.url)
        await visit.page.wait_for_selector("#login:not([hidden])")
        assert await visit.focused() == "token"
        await visit.shot("login")
        assert "vae-1" not in await visit.page.content()
        await visit.page.keyboard.type("wrong")
        await visit.page.keyboard.press("Enter")
        await visit.says("#login-problem", "this token may not see the page")
        await visit.page.keyboard.type(TOKEN)
        await visit.page.keyboard.press("Enter")
        await visit.says("#jobs", "vae-1")
        assert await visit.page.locator("#login").is_hidden()


async def test_a_lost_connection_is_said_and_made_again(visit_to, busy):
    """While the manager is away the last picture stays; when it is back the page goes on by itself."""
    async with visit_to(busy, complaints=("ERR_",)) as visit:
        await visit.page.route("**/events", lambda route: route.abort())
        await visit.page.goto(visit.link)
        await visit.says("#connection", "trying again")
        await visit.page.unroute("**/events")
        await visit.says("#connection", "live")
        await visit.says("#jobs", "vae-1")


async def test_the_end_of_the_manager_is_said(visit_to, busy):
    """The last picture stays, and it is said to be the last."""
    async with visit_to(busy) as visit:
        await visit.open()
        busy.tell("default/gru-1/worker/0", 0.7, step=499, total_steps=800)
        visit.served.close()
        await visit.says("#banner", "The manager has ended.")
        await visit.says("#jobs .row", "499 / 800")
        assert await visit.page.locator("#connection").inner_text() == "ended"


async def test_a_pause_and_a_standby_are_said(visit_to, busy):
    """In a banner above everything."""
    async with visit_to(busy) as visit:
        await visit.open()
        busy.post(ev.Paused(reason="until Monday"))
        await visit.says("#banner", "Paused: nothing new is ordered (until Monday).")
        visit.served.controller = None
        await visit.says("#banner", "This manager is a standby")


async def test_a_large_cluster_fits_the_page(visit_to):
    """The page shows a part of 10,000 replicas on 400 nodes, and says what it leaves out."""
    cluster = WatchedCluster()
    cluster.state = crowd(10_000)
    async with visit_to(cluster) as visit:
        await visit.open()
        assert await visit.page.locator("#jobs .row").count() == 500
        await visit.says("#jobs-left", "and 9,500 more replicas")
        await visit.says("#nodes-left", "and 100 more nodes")
        await visit.says("#words", "progressing 9,804")
        await visit.shot("large")


async def test_everything_that_can_be_used_has_a_name(visit_to, busy):
    """For screen readers: buttons, inputs, lists and the table's columns; and no id is given twice."""
    async with visit_to(moved(busy)) as visit:
        await visit.open()
        unnamed = await visit.page.evaluate(
            """() => [...document.querySelectorAll("button, input")]
                .filter((each) => !(each.innerText || each.labels?.length || each.ariaLabel))
                .map((each) => each.outerHTML)"""
        )
        assert [each for each in unnamed if 'id="token"' not in each] == []
        twice = await visit.page.evaluate(
            """() => { const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
                return ids.filter((id, index) => ids.indexOf(id) !== index); }"""
        )
        assert twice == []
        tree = await visit.page.locator("main").aria_snapshot()
        for name in ("Nodes", "Jobs", "Moves and changes", "Queue", "Last decisions"):
            assert f'heading "{name}"' in tree
        assert "proving" in tree


async def test_a_gang_that_moves_is_one_move_and_as_many_chips(visit_to, busy):
    """From which nodes to which, and each of its replicas on its way; a queued one is whole as well."""
    state = with_moving_gang(busy).state
    (flying,) = state.transactions.values()
    request = Request(id="r-1", job="default/gang", targets=("node-0", "node-2"), at=busy.now)
    over = ended(7, Kind.MOVE, job="gang", before=flying.after, after=flying.before)
    busy.state = msgspec.structs.replace(state, requests={"r-1": request}, history=(over,))
    async with visit_to(busy) as visit:
        await visit.open()
        await visit.says("#moves .way", "all 2 replicas: node-0, node-1 → node-2, node-1")
        assert await visit.page.locator("#moves li.move").count() == 1
        await visit.says("#nodes .chip.arriving", "gang/worker/0")
        assert await visit.page.locator("#nodes .chip.arriving").count() == 1
        assert await visit.page.locator("#nodes .chip.leaving").count() == 1
        await visit.says("#requests", "all of it → node-0, node-2")
        await visit.says("#ended", "all 2 replicas: node-2, node-1 → node-0, node-1")


async def test_changes_what_is_stuck_and_what_is_queued_are_shown(visit_to, busy):
    """A gang that is scaled with its own states, why something does not end, and who waits for what."""
    known = busy.state
    (flying,) = changing().transactions.values()
    stuck = msgspec.structs.replace(flying, stuck="worker 2 does not end")
    request = Request(
        id="r-1", replica="default/gru-1/worker/0", target="node-2", at=busy.now, waits_for="4 moves"
    )
    busy.state = msgspec.structs.replace(
        known.with_transaction(stuck), requests={"r-1": request}, history=(*known.history, ended(7))
    )
    async with visit_to(busy) as visit:
        await visit.open()
        await visit.says("#moves .way", "scale-out: 2 → 3 workers")
        await visit.says("#moves .stuck", "Stuck: worker 2 does not end")
        assert await visit.page.locator("#moves .track li").count() == 4
        await visit.says("#requests", "gru-1")
        await visit.says("#requests .cost", "queued · waits: 4 moves")
        await visit.says("#ended", "succeeded · downtime 3.0 s")
        await visit.says("#figures", "0 moves in flight 1 queued")
        await visit.says("#figures", "1 change in flight")
        await visit.says("#figures", "1 stuck")
        await visit.shot("stuck")
