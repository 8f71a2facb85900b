"""What rows and figures of the status page say: the headline, gangs, logs, and times in words."""

import msgspec
import pytest

from specon_manager.model.expected_start import ExpectedStart
from specon_manager.views.log_tail import LogTail, pod_log_tail
from specon_sidecar.classify import Category
from support.watching.busy import GANG, with_moving_gang
from support.watching.watched import WatchedCluster

# All in the loop of the browser, which is started once.
pytestmark = pytest.mark.asyncio(loop_scope="module")


async def called(visit, module, call):
    """Return what a function of one of the page's modules returns."""
    return await visit.page.evaluate(f"import('./{module}').then((module) => module.{call})")


SPANS = {
    0: "0 s",
    0.4: "0 s",
    59.7: "1 min",
    61: "1 min 1 s",
    359.6: "6 min",
    3599.9: "1 h",
    3660: "1 h 1 min",
    86399.6: "1 d",
    200000: "2 d 7 h",
}


async def test_times_are_rounded_before_they_are_parted(visit_to):
    """Never `5 min 60 s`, and nothing where it is nought; what is measured has a tenth below a minute."""
    async with visit_to() as visit:
        await visit.open()
        assert {each: await called(visit, "words.js", f"span({each})") for each in SPANS} == SPANS
        measured = [await called(visit, "words.js", f"measured({each})") for each in (3.04, 59.94, 59.96, 75)]
        assert measured == ["3.0 s", "59.9 s", "1 min", "1 min 15 s"]


async def test_the_headline_says_what_converged_jobs_hold(visit_to, busy):
    """How many there are, core-hours, what moves gave back, and that a saving is not known."""
    async with visit_to(busy) as visit:
        await visit.open()
        await visit.says(".figure-converged", "Converged now 1 of 4")
        await visit.says(".figure-held", "core-min")
        await visit.says(".figure-held", "2 of 12 cores now")
        await visit.says(".figure-freed", "0.0 core-min")
        await visit.says(".figure-saved", "not known")


async def test_the_queue_says_when_a_job_starts_in_the_same_words(visit_to, busy):
    """In minutes and seconds like every other time of the page."""
    soon = ExpectedStart(in_seconds=360.0, earliest_seconds=59.7, latest_seconds=3600.0, worlds=19)
    async with visit_to(busy) as visit:
        visit.served.show_starts(lambda _: {"default/waits": soon})
        await visit.open()
        await visit.says("#queue", "starts in 6 min (1 min to 1 h)")
        far = ExpectedStart(earliest_seconds=3600.0, why="beyond what was simulated", worlds=19)
        visit.served.show_starts(lambda _: {"default/waits": far})
        await visit.open()
        await visit.says("#queue", "starts after 1 h")


async def test_where_there_are_gpus_they_come_first(visit_to, busy):
    """In hours of GPUs, with the cores below."""
    async with visit_to(with_moving_gang(busy, gpus=2.0)) as visit:
        await visit.open()
        await visit.says(".figure-held b", "GPU-min")
        await visit.says(".figure-held small", "of 6 GPUs now")


async def test_a_gang_is_one_row_that_opens(visit_to, busy):
    """With its nodes and how many replicas it has; opened, each of them has a row, which opens as well."""
    async with visit_to(with_moving_gang(busy)) as visit:
        await visit.open()
        await visit.says(f"tbody[data-name='{GANG}'] .row", "gang 2 replicas node-0, node-1")
        before = await visit.page.locator("#jobs .row").count()
        opener = visit.page.locator(f"tbody[data-name='{GANG}'] .opener")
        await opener.press("Enter")
        assert await opener.get_attribute("aria-expanded") == "true"
        assert await visit.page.locator("#jobs .row").count() == before + 2
        member = visit.page.locator(f"tbody[data-name='{GANG}/worker/1'] .opener")
        assert "worker/1" in await member.inner_text()
        await member.press("Enter")
        await visit.says(".detail", "default/gang/worker/1")
        await opener.press("Escape")
        assert await visit.page.locator("#jobs .row").count() == before
        assert await visit.page.locator("tbody.member").count() == 0


async def test_a_chip_of_a_gang_opens_its_row(visit_to, busy):
    """Though the job was not opened before."""
    async with visit_to(with_moving_gang(busy)) as visit:
        await visit.open()
        await visit.page.locator("#nodes .chip", has_text="gang/worker/1").first.click()
        await visit.says(".detail", "default/gang/worker/1")


async def test_a_filter_keeps_the_replicas_that_are_looked_for(visit_to, busy):
    """A job of several replicas shows only the replica with the typed name."""
    async with visit_to(with_moving_gang(busy)) as visit:
        await visit.open()
        await visit.page.locator("#search").fill("gang/worker/0")
        await visit.says(f"tbody[data-name='{GANG}'] .row", "gang 1 replica")
        assert await visit.page.locator("#jobs .row").count() == 1


async def test_an_open_row_shows_the_end_of_the_log(visit_to):
    """As text, whatever it looks like; its path stands above, and new lines come by themselves."""
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.tell(a, 1.0, step=1)
    lines = ["step 1 loss=1.0", "<img src=x onerror=alert(1)>"]

    async def tail(replica):
        assert replica == a
        return LogTail(path="/tmp/a/train.log", lines=tuple(lines), more=True)

    async with visit_to(cluster) as visit:
        visit.served.show_logs(tail)
        await visit.open()
        await visit.page.locator("tbody .opener").press("Enter")
        await visit.says(".log", "/tmp/a/train.log the last 2 lines")
        await visit.says(".log pre", "<img src=x onerror=alert(1)>")
        lines.append("Traceback (most recent call last):")
        await visit.says(".log pre", "Traceback")
        await visit.shot("log")


async def test_on_kubernetes_a_row_says_where_the_log_is(visit_to):
    """The manager has no right to read it."""
    cluster = WatchedCluster()
    (a,) = cluster.run("a")
    cluster.tell(a, 1.0, step=1, category=Category.PROGRESSING)

    async def tail(replica):
        return pod_log_tail(replica, "a-0-x7")

    async with visit_to(cluster) as visit:
        visit.served.show_logs(tail)
        await visit.open()
        await visit.page.locator("tbody .opener").press("Enter")
        await visit.says(".log .path", "kubectl -n default logs a-0-x7")
        assert await visit.page.locator(".log .lines").is_hidden()


async def test_replicas_of_different_words_are_counted(visit_to, busy):
    """A job in which one replica has converged and another one learns says both."""
    cluster = with_moving_gang(busy)
    first = cluster.state.replicas[f"{GANG}/worker/0"]
    progress = msgspec.structs.replace(first.progress, category=Category.CONVERGED)
    cluster.state = cluster.state.with_replica(msgspec.structs.replace(first, progress=progress))
    async with visit_to(cluster) as visit:
        await visit.open()
        await visit.says(f"tbody[data-name='{GANG}'] .in-state", "1 converged 1 unknown")
