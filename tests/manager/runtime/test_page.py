"""The status page's routes: who is let in, what is sent under which headers, and how a stream ends."""

import asyncio
import contextlib
import json

import aiohttp
import pytest

from specon_manager.runtime.identities import IdentityUnavailableError
from specon_manager.runtime.page.listener import PageListener
from specon_manager.runtime.page.page import Page
from specon_manager.runtime.tokens import Tokens
from specon_manager.views.log_tail import LogTail
from support.watching.watched import TOKEN, WatchedCluster, page_of, permitted, served

OWNER = {"Authorization": f"Bearer {TOKEN}"}
SECRET_PATHS = ["view", "events", "log"]


class Visitor:
    """Asks a page."""

    def __init__(self, url, session, cluster, page):
        self.url, self.session, self.cluster, self.page = url, session, cluster, page

    async def get(self, path, headers=None, method="GET"):
        async with self.session.request(method, self.url + path, headers=headers) as answer:
            return answer.status, answer.headers, await answer.text()


@contextlib.asynccontextmanager
async def visiting(**options):
    cluster = WatchedCluster()
    page = page_of(cluster, **options)
    async with served(page) as url, aiohttp.ClientSession() as session:
        yield Visitor(url, session, cluster, page)


@pytest.fixture
async def visitor():
    async with visiting() as visitor:
        yield visitor


async def event(answer):
    """Return the next event of a stream, its name and what it says."""
    async with asyncio.timeout(60):
        name = data = ""
        while line := (await answer.content.readline()).decode():
            if line.startswith("event: "):
                name = line[7:].strip()
            elif line.startswith("data: "):
                data = line[6:]
            elif line == "\n" and name:
                return name, json.loads(data)
    return "", None


@pytest.mark.parametrize("path", ["", "main.js", "style.css", "icon.svg"])
async def test_the_files_are_there_for_everybody(visitor, path):
    """They hold nothing about anybody's jobs."""
    status, headers, text = await visitor.get(path)
    assert status == 200
    assert text
    assert "charset=utf-8" in headers["Content-Type"]


@pytest.mark.parametrize(
    "path", ["../page.py", "..%2Fpage.py", "%2e%2e/%2e%2e/tokens.py", "nothing.js", "x/y"]
)
async def test_nothing_else_is_sent(visitor, path):
    """There is no way out of the folder of files."""
    status, _, text = await visitor.get(path)
    assert status == 404
    assert "import" not in text


@pytest.mark.parametrize("path", SECRET_PATHS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Bearer wrong"}, 403),
        ({"Cookie": f"token={TOKEN}"}, 401),
    ],
)
async def test_what_is_shown_needs_the_token(visitor, path, headers, status):
    """Without it, with another, or with it where browsers send it by themselves: not a word."""
    visitor.cluster.run("secret-project")
    answered, _, text = await visitor.get(path, headers)
    assert answered == status
    assert "secret-project" not in text


async def test_a_token_in_the_query_is_not_looked_at(visitor):
    """Addresses stand in logs and histories."""
    status, _, _ = await visitor.get(f"view?token={TOKEN}")
    assert status == 401


async def test_the_picture_can_be_had_once(visitor):
    """As JSON, for scripts."""
    visitor.cluster.run("a")
    status, _, text = await visitor.get("view", OWNER)
    assert status == 200
    assert [row["label"] for row in json.loads(text)["replicas"]] == ["a"]


@pytest.mark.parametrize("path", ["", "main.js", "view", "nothing.js"])
async def test_every_answer_has_the_headers_of_a_careful_page(visitor, path):
    """Nothing from elsewhere, nothing inline, in nobody's frame, kept by nobody."""
    _, headers, _ = await visitor.get(path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["", "view", "events"])
async def test_nothing_can_be_changed(visitor, method, path):
    """The page only reads, whatever the token."""
    status, _, _ = await visitor.get(path, OWNER, method)
    assert status == 405


async def test_a_stream_goes_on_with_what_happens(visitor):
    """A picture at once, another one after a change, and the end when the manager ends."""
    async with visitor.session.get(visitor.url + "events", headers=OWNER) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        name, picture = await event(answer)
        assert (name, picture["replicas"]) == ("view", [])
        visitor.cluster.run("a")
        _, picture = await event(answer)
        assert [row["label"] for row in picture["replicas"]] == ["a"]
        visitor.page.close()
        assert await event(answer) == ("end", {})
        assert await answer.content.read() == b""


async def test_one_watcher_too_many_is_told_to_come_again():
    """With a reason and a time."""
    async with (
        visiting(listeners=1) as visitor,
        visitor.session.get(visitor.url + "events", headers=OWNER) as answer,
    ):
        await event(answer)
        status, headers, text = await visitor.get("events", OWNER)
        assert (status, headers["Retry-After"]) == (503, "10")
        assert "1 watch already" in text


async def test_who_has_gone_is_noticed():
    """A closed browser makes room for another one within a few heartbeats."""
    async with visiting(listeners=1, heartbeat=0.02) as visitor:
        async with visitor.session.get(visitor.url + "events", headers=OWNER) as answer:
            await event(answer)
        async with asyncio.timeout(60):
            refused = True
            while refused:
                async with visitor.session.get(visitor.url + "events", headers=OWNER) as answer:
                    refused = answer.status == 503


async def test_a_token_that_is_withdrawn_ends_its_stream():
    """Who watches on is asked for again."""
    allowed = [True]

    async def may(token):
        return allowed[0] and await permitted(token)

    page = Page(may, heartbeat=0.02, recheck_seconds=0.0)
    page.controller = WatchedCluster()
    async with (
        served(page) as url,
        aiohttp.ClientSession() as session,
        session.get(url + "events", headers=OWNER) as answer,
    ):
        await event(answer)
        allowed.clear()
        allowed.append(False)
        assert await event(answer) == ("", None)


async def test_where_nobody_knows_whose_token_it_is_one_comes_again():
    """That is no refusal: a page keeps its token."""

    async def nobody_knows(token):
        raise IdentityUnavailableError("the API server is away")

    async with (
        served(Page(nobody_knows)) as url,
        aiohttp.ClientSession() as session,
        session.get(url + "view", headers=OWNER) as answer,
    ):
        assert answer.status == 503
        assert "Retry-After" in answer.headers


async def test_a_standby_says_so_until_it_leads(visitor):
    """And again once it leads no more; an old controller has no observer left."""
    cluster = visitor.cluster
    visitor.page.controller = None
    assert json.loads((await visitor.get("view", OWNER))[2])["standby"] is True
    assert cluster.observers == []
    visitor.page.controller = cluster
    assert json.loads((await visitor.get("view", OWNER))[2])["standby"] is False
    assert len(cluster.observers) == 1


async def test_a_link_lets_see_and_do_nothing(tmp_path):
    """The viewer's token opens the page; it is not the owner's, and the owner's opens the page too."""
    tokens = Tokens(tmp_path)
    assert await tokens.may_view(tokens.viewer)
    assert await tokens.may_view(tokens.owner)
    assert not await tokens.may_view(tokens.sidecar("default/a/worker/0", "1"))
    assert not await tokens.is_owner(tokens.viewer)


async def test_a_page_of_its_own_serves_nothing_else():
    """On its own port there is the page, and no state, no reports, no metrics."""
    page = page_of(WatchedCluster())
    listener = PageListener(page)
    port = await listener.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            statuses = [
                (await session.get(path, headers=OWNER)).status
                for path in ("/page/", "/page/view", "/v1/state", "/metrics")
            ]
        assert statuses == [200, 200, 404, 404]
    finally:
        await listener.stop()


async def test_a_port_that_is_taken_costs_the_page_only():
    """The manager goes on without one."""
    first, second = PageListener(page_of(WatchedCluster())), PageListener(page_of(WatchedCluster()))
    port = await first.start("127.0.0.1", 0)
    try:
        assert await second.start("127.0.0.1", port) is None
        await second.stop()
    finally:
        await first.stop()


async def test_the_end_of_a_log_is_for_those_who_may_see_the_page(visitor):
    """With the token, and of a replica that is known; a name that somebody made up is not looked for."""
    (a,) = visitor.cluster.run("a")
    asked = []

    async def tail(replica):
        asked.append(replica)
        return LogTail(path="/tmp/a.log", lines=("step 1",))

    visitor.page.show_logs(tail)
    status, _, text = await visitor.get(f"log?replica={a}")
    assert status == 401
    status, headers, text = await visitor.get(f"log?replica={a}", OWNER)
    assert (status, json.loads(text)["lines"]) == (200, ["step 1"])
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, _, text = await visitor.get("log?replica=../../etc/passwd", OWNER)
    assert (status, json.loads(text)) == (404, {"error": "replica: there is no '../../etc/passwd'"})
    assert asked == [a]


async def test_where_nobody_knows_of_a_log_it_says_so(visitor):
    """In words, for the page to show."""
    (a,) = visitor.cluster.run("a")
    status, _, text = await visitor.get(f"log?replica={a}", OWNER)
    assert (status, json.loads(text)["note"]) == (200, "Nobody here knows where its log is.")
