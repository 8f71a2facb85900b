"""Which Migrations that have ended are kept, and which are removed."""

import asyncio
import contextlib

from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.housekeeping import Housekeeping
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError


class RecordingApi:
    """Takes deletions, or raises what a test says first."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.deleted = []

    async def delete(self, resource, name, namespace, *, uid):
        if self.errors:
            raise self.errors.pop(0)
        self.deleted.append((namespace, name, uid))

    async def patch(self, resource, name, namespace, body, *, form, subresource):
        self.deleted.append((name, body))


async def tidied(api, ended, *, holds=lambda: True, names=None, **bounds):
    """Run until nothing is left to do; `names`: of those that are not called by their number."""
    keeping = Housekeeping(api, holds=holds, sleep=lambda _: asyncio.sleep(0), **bounds)
    for number, replica in enumerate(ended):
        name = (names or {}).get(number, f"m-{number}")
        keeping.note_ended(replica, float(number), Name("default", name), f"uid-{number}")
    task = asyncio.ensure_future(keeping.run())
    for _ in range(200):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return [int(uid.removeprefix("uid-")) for _, _, uid in api.deleted]


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_the_latest_of_each_replica_and_of_all_are_kept(ended):
    """Never more than the bounds, never a younger one removed before an older one of the same replica."""
    gone = set(asyncio.run(tidied(RecordingApi(), ended, per_replica=3, in_all=5)))
    left = [number for number in range(len(ended)) if number not in gone]
    assert len(left) <= 5
    for replica in "abc":
        mine = [number for number, of in enumerate(ended) if of == replica]
        kept = [number for number in mine if number in left]
        assert len(kept) <= 3
        assert kept == mine[len(mine) - len(kept) :]
    if len(ended) <= 3:
        assert not gone


async def test_what_could_not_be_removed_is_removed_later_and_what_is_gone_is_forgotten():
    """No answer: again. No such object, or another of that name: done."""
    api = RecordingApi(ApiUnavailableError("away"), ApiError(404, "NotFound", "gone"))
    assert await tidied(api, "aaa", per_replica=1) == [1]


async def test_a_manager_that_does_not_lead_removes_nothing():
    """Its successor does."""
    assert await tidied(RecordingApi(), "aaa", per_replica=1, holds=lambda: False) == []


async def test_a_name_that_was_used_again_is_that_of_the_latest_replica():
    """Somebody deleted the first Migration: it takes no place of its replica, and is not removed again."""
    again = {0: "again", 1: "again"}
    assert await tidied(RecordingApi(), "abaa", names=again, per_replica=2) == []
    assert await tidied(RecordingApi(), "abaabba", names=again, per_replica=2) == [1, 2]
