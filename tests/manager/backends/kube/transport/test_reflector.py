import asyncio
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.transport.reflector import ObjectChange, Reflector
from specon_manager.backends.kube.transport.resources import PODS
from support.clocks.virtual_time import run_virtually, virtual_now


class Slim(Struct, frozen=True):
    uid: str
    value: str


def slim(item):
    if item.get("odd"):
        raise KeyError("spec")
    return Slim(item["metadata"]["uid"], item.get("value", ""))


def pod(name, uid="u", value="", version="1", **more):
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": version},
        "value": value,
        **more,
    }


def event(kind, item):
    return kind, item


class Server:
    """Gives the lists and watches that a test wrote down, one after the other, and notes what was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.reading = ReadGuard()

    def _next(self, what):
        self.asked.append(what)
        return self.answers.pop(0) if self.answers else None

    async def pages(self, _resource, _namespace, **_options):
        answer = self._next(("list", virtual_now()))
        assert answer[0] == "list", answer
        for number, page in enumerate(answer[1:]):
            if isinstance(page, Exception):
                raise page
            yield page, str(100 + number)

    async def watch(self, _resource, _namespace, *, resource_version, seconds, **_options):
        answer = self._next(("watch", resource_version))
        if answer is None:
            await asyncio.sleep(1e9)
        assert answer[0] == "watch", answer
        for each in answer[1:]:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, float):
                await asyncio.sleep(min(each, seconds))
            else:
                yield each


GONE = ApiError(410, "Expired", "too old")
BROKEN = ApiUnavailableError("connection lost")


def follow(*answers, seconds=3600.0, **options):
    """Return the server and the changes after a run of so many (virtual) seconds."""

    async def scenario():
        server, seen = Server(*answers), []
        reflector = Reflector(
            server,
            PODS,
            slim=slim,
            changed=seen.append,
            rng=random.Random(1),
            monotonic=virtual_now,
            **{"resync_seconds": 1e6, "watch_seconds": 300.0, **options},
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(seconds)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return server, seen, reflector

    return run_virtually(scenario())


def told(seen):
    return [
        (change.key[1], change.before and change.before.value, change.after and change.after.value)
        for change in seen
    ]


def test_lists_all_pages_then_watches_from_there():
    server, seen, reflector = follow(
        ("list", [pod("a")], [pod("b")]),
        (
            "watch",
            event("MODIFIED", pod("a", value="x", version="102")),
            event("DELETED", pod("b", version="103")),
            9.0,
        ),
    )
    assert told(seen) == [("a", None, ""), ("b", None, ""), ("a", "", "x"), ("b", "", None)]
    assert [what for what in server.asked if what[0] == "watch"] == [("watch", "101"), ("watch", "103")]
    assert reflector.synced.is_set()
    assert dict(reflector.items) == {("ns", "a"): Slim("u", "x")}


def test_what_this_process_wrote_is_known_before_the_watch_tells_of_it():
    """Unless what is known may be newer; before the first list nothing is learnt."""
    _, seen, reflector = follow(
        ("list", [pod("a")]), ("watch", event("MODIFIED", pod("a", version="102")), 9.0)
    )
    reflector.learn(pod("a", value="old", version="102"))
    assert told(seen) == [("a", None, "")]
    reflector.learn(pod("a", value="new", version="103"))
    assert told(seen)[1:] == [("a", "", "new")]
    _, seen, reflector = follow(("list", BROKEN), seconds=0.1)
    reflector.learn(pod("a", value="new", version="103"))
    assert not seen


def test_what_is_slimmed_away_is_no_change():
    _, seen, _ = follow(("list", [pod("a")]), ("watch", event("MODIFIED", pod("a", other=1)), 9.0))
    assert told(seen) == [("a", None, "")]


def test_a_broken_connection_goes_on_from_the_last_version_bookmarks_included():
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "150"}})
    server, _, _ = follow(("list", []), ("watch", bookmark, BROKEN), ("watch", 9.0))
    assert [what[0] for what in server.asked] == ["list", "watch", "watch", "watch"]
    assert server.asked[2] == ("watch", "150")


@pytest.mark.parametrize("where", ["watch", "event"])
def test_after_410_everything_is_listed_and_what_is_gone_is_removed(where):
    forgotten = (
        ("watch", GONE) if where == "watch" else ("watch", event("ADDED", pod("c", version="120")), GONE)
    )
    _, seen, reflector = follow(
        ("list", [pod("a"), pod("b")]), forgotten, ("list", [pod("b", value="y"), pod("d")]), ("watch", 9.0)
    )
    removed = {key for key, _, after in told(seen) if after is None}
    assert removed == ({"a"} if where == "watch" else {"a", "c"})
    assert {key[1]: item.value for key, item in reflector.items.items()} == {"b": "y", "d": ""}


def test_410_in_the_middle_of_paging_begins_again():
    server, seen, _ = follow(("list", [pod("a")], GONE), ("list", [pod("b")]), ("watch", 9.0))
    assert told(seen) == [("b", None, "")]
    assert [what[0] for what in server.asked][:3] == ["list", "list", "watch"]


def test_an_object_of_the_same_name_with_another_uid_is_removed_then_added():
    _, seen, _ = follow(("list", [pod("a", uid="u1")]), ("watch", event("ADDED", pod("a", uid="u2")), 9.0))
    assert [(change.before and change.before.uid, change.after and change.after.uid) for change in seen] == [
        (None, "u1"),
        ("u1", None),
        (None, "u2"),
    ]


def test_the_last_state_of_what_was_deleted_is_told_before_its_removal():
    _, seen, _ = follow(("list", [pod("a")]), ("watch", event("DELETED", pod("a", value="exit 0")), 9.0))
    assert told(seen) == [("a", None, ""), ("a", "", "exit 0"), ("a", "exit 0", None)]


def test_the_deletion_of_what_was_never_seen_is_no_change():
    _, seen, _ = follow(("list", []), ("watch", event("DELETED", pod("a")), 9.0))
    assert seen == []


def test_failures_are_waited_for_longer_and_longer_but_never_longer_than_30_seconds():
    server, _, _ = follow(*[("list", BROKEN)] * 12, ("list", [pod("a")]), ("watch", 9.0))
    at = [when for what, when in server.asked if what == "list"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert pauses[0] <= 0.5
    assert all(second >= first / 2 for first, second in itertools.pairwise(pauses))
    assert 15 <= pauses[-1] <= 30


def test_a_server_that_asks_for_time_gets_it():
    throttled = ApiError(429, "TooManyRequests", "later", retry_after=7.0)
    server, _, _ = follow(("list", throttled), ("list", []), ("watch", 9.0))
    at = [when for what, when in server.asked if what == "list"]
    assert at[1] - at[0] >= 7.0


def test_watches_that_end_as_soon_as_they_begin_are_no_busy_loop():
    server, _, _ = follow(("list", []), *[("watch",)] * 200, seconds=60.0)
    assert len(server.asked) < 15


def test_everything_is_compared_again_after_the_resync_time():
    """A change that no event told of is found."""
    _, seen, _ = follow(
        ("list", [pod("a"), pod("b")]),
        ("watch", 1e9),
        ("list", [pod("a", value="x")]),
        ("watch", 1e9),
        resync_seconds=100.0,
        seconds=150.0,
    )
    assert told(seen)[2:] == [("b", "", None), ("a", "", "x")]


def test_an_object_that_cannot_be_read_is_left_out_and_no_other():
    _, _, reflector = follow(
        ("list", [pod("a", odd=True), pod("b")]), ("watch", event("ADDED", pod("c")), 9.0)
    )
    assert set(reflector.items) == {("ns", "b"), ("ns", "c")}


def test_a_known_object_that_can_no_longer_be_read_is_removed():
    _, seen, _ = follow(("list", [pod("a")]), ("watch", event("MODIFIED", pod("a", odd=True)), 9.0))
    assert told(seen) == [("a", None, ""), ("a", "", None)]


names = st.sampled_from("abc")
steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "break", "forget"]),
        names,
        st.sampled_from(["1", "2"]),
        st.text(max_size=1),
    ),
    max_size=20,
)


@given(steps=steps)
@settings(max_examples=100, deadline=None)
def test_the_changes_always_lead_from_what_was_to_what_is(steps):
    """Whatever breaks in between: each change begins where the last one ended, and the end is the truth."""
    truth, answers, events = {}, [("list", [])], []
    version = 100
    for kind, name, uid, value in steps:
        version += 1
        if kind == "put":
            truth[name] = pod(name, uid=uid, value=value, version=str(version))
            events.append(event("MODIFIED", truth[name]))
        elif kind == "delete":
            gone = truth.pop(name, None) or pod(name)
            gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(version)}}
            events.append(event("DELETED", gone))
        elif kind == "break":
            answers.append(("watch", *events, BROKEN))
            events = []
        else:
            answers += [("watch", GONE), ("list", list(truth.values()))]
            events = []
    _, seen, reflector = follow(*answers, ("watch", *events, 9.0))
    state = {}
    for change in seen:
        assert isinstance(change, ObjectChange)
        assert state.get(change.key) == change.before
        assert change.before != change.after
        assert change.before is None or change.after is None or change.before.uid == change.after.uid
        state[change.key] = change.after
    found = {key: item for key, item in state.items() if item is not None}
    assert found == dict(reflector.items) == {("ns", name): slim(item) for name, item in truth.items()}
