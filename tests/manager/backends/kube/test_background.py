"""The leader learns of the first task that breaks."""

import asyncio

import pytest

from specon_manager.backends.base import NotLeadingError
from specon_manager.backends.kube.background import Background, BrokenError, leaves
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError


async def work(error=None):
    await asyncio.sleep(0)
    if error is not None:
        raise error


async def broken(*tasks, **options):
    background = Background()
    for task in tasks:
        background.start(task, "reading the runes", **options)
    try:
        async with asyncio.timeout(30):
            await background.broken()
    finally:
        await background.end()


async def test_an_error_of_one_task_is_told_with_its_name():
    """Not left in a log line: the error is its cause."""
    with pytest.raises(BrokenError, match=r"^reading the runes: OverflowError: odd$") as caught:
        await broken(work(), work(OverflowError("odd")))
    assert isinstance(caught.value.__cause__, OverflowError)


async def test_the_mere_end_of_endless_work_is_a_break():
    """Nobody would follow the cluster any more."""
    with pytest.raises(BrokenError, match="it came to its end"):
        await broken(work(), endless=True)


async def test_who_leads_no_more_is_not_broken():
    """It is told as what it is."""
    with pytest.raises(NotLeadingError, match="deposed"):
        await broken(work(NotLeadingError("deposed")))


async def test_an_errand_for_which_the_api_server_is_away_breaks_nothing():
    """The order is given again when it is overdue; work that is to go on for ever has no such excuse."""
    away = ApiUnavailableError("connection refused")
    with pytest.raises(BrokenError, match="odd"):
        await broken(work(away), work(ApiError(403, "Forbidden", "no")), work(ValueError("odd")))
    with pytest.raises(BrokenError, match="connection refused"):
        await broken(work(away), endless=True)


async def test_what_ends_in_order_or_is_cancelled_breaks_nothing():
    """Work of one errand is done when it is done."""
    background = Background()
    done, cancelled = background.start(work()), background.start(asyncio.sleep(1e6))
    await done
    cancelled.cancel()
    await asyncio.wait([cancelled])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await background.broken()
    await background.end()


def test_errors_in_groups_of_groups_are_found():
    """The first of them is what the log has at the end."""
    group = BaseExceptionGroup("", [ExceptionGroup("", [ValueError("a")]), KeyboardInterrupt()])
    assert [type(each) for each in leaves(group)] == [ValueError, KeyboardInterrupt]
