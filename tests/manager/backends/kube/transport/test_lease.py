import asyncio
import copy
import itertools
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.backends.kube.records.pause import pause_patch, pause_reason
from specon_manager.backends.kube.transport.errors import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.lease import Elector, StillWorkingError
from support.clocks.virtual_time import run_virtually, virtual_now


class Leases:
    """The Lease of an API server in memory: optimistic locking, latency, outages, lost answers."""

    def __init__(self):
        self.lease = None
        self.version = 0

    def write(self, body):
        self.version += 1
        self.lease = copy.deepcopy(body)
        self.lease["metadata"].update(uid="u", resourceVersion=str(self.version))
        return copy.deepcopy(self.lease)


class Line:
    """One candidate's line to the API server, which may be cut for spans of time."""

    def __init__(self, leases, *, latency=0.05, cut=(), lost_answers=()):
        self.leases = leases
        self.latency = latency
        self.cut = cut
        self.lost_answers = lost_answers

    async def _pass(self, spans, what):
        await asyncio.sleep(self.latency)
        if any(begin <= virtual_now() < end for begin, end in spans):
            await asyncio.sleep(0.5)
            raise ApiUnavailableError(what)

    async def get(self, _resource, name, _namespace):
        await self._pass(self.cut, "request lost")
        if self.leases.lease is None:
            raise ApiError(404, "NotFound", name)
        return copy.deepcopy(self.leases.lease)

    async def create(self, _resource, body, _namespace):
        await self._pass(self.cut, "request lost")
        if self.leases.lease is not None:
            raise ApiError(409, "AlreadyExists", "there is one")
        found = self.leases.write(body)
        await self._pass(self.lost_answers, "answer lost")
        return found

    async def replace(self, _resource, body, _name, _namespace):
        await self._pass(self.cut, "request lost")
        if self.leases.lease is None:
            raise ApiError(404, "NotFound", "none")
        if body["metadata"]["resourceVersion"] != self.leases.lease["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "another version")
        found = self.leases.write(body)
        await self._pass(self.lost_answers, "answer lost")
        return found


class Candidate:
    """An elector whose leader's work notes when it was done."""

    def __init__(self, line, name, *, seed=0, wall_offset=0.0, ending=0.0, **options):
        self.name = name
        self.ending = ending
        self.terms = []
        self.line = line
        self.elector = Elector(
            line,
            namespace="specon",
            name="manager",
            identity=name,
            monotonic=virtual_now,
            wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=virtual_now() + wall_offset),
            rng=random.Random(seed),
            **options,
        )

    async def lead(self):
        began = virtual_now()
        try:
            await asyncio.sleep(1e6)
        finally:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(self.ending)
            self.terms.append((began, virtual_now()))

    def start(self):
        return asyncio.create_task(self.elector.run(self.lead))


async def stop(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_creates_the_lease_that_is_missing():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")
        task = candidate.start()
        await asyncio.sleep(1)
        spec = leases.lease["spec"]
        assert (candidate.elector.leading, candidate.elector.holds()) == (True, True)
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a", 12)
        await stop(task)

    run_virtually(scenario())


def test_gives_the_lease_back_on_exit_and_the_standby_leads_within_one_look():
    async def scenario():
        leases = Leases()
        first, second = Candidate(Line(leases), "a"), Candidate(Line(leases), "b", seed=1)
        one = first.start()
        await asyncio.sleep(1)
        other = second.start()
        await asyncio.sleep(30)
        assert not second.elector.leading
        assert second.elector.holder == "a"
        await stop(one)
        assert leases.lease["spec"]["holderIdentity"] == ""
        await asyncio.sleep(2.3)
        assert second.elector.holds()
        assert leases.lease["spec"]["leaseTransitions"] == 1
        await stop(other)

    run_virtually(scenario())


def test_a_handover_counts_as_led_for_all_who_stand_by_and_for_the_leader_that_ends():
    async def scenario():
        leases = Leases()
        candidates = [Candidate(Line(leases), name, seed=seed) for seed, name in enumerate("abc")]
        tasks = [each.start() for each in candidates]
        led = []

        async def looks():
            while True:
                led.append([each.elector.is_led() for each in candidates])
                await asyncio.sleep(0.01)

        looking = asyncio.create_task(looks())
        await asyncio.sleep(5)
        (leader,) = [number for number, each in enumerate(candidates) if each.elector.leading]
        candidates[leader].ending = 1.0
        await stop(tasks[leader])
        await asyncio.sleep(5)
        assert sum(each.elector.holds() for each in candidates) == 1
        assert all(all(each) for each in led)
        await stop(looking, *tasks)

    run_virtually(scenario())


@pytest.mark.parametrize(("in_order", "seconds"), [(True, 7.0), (False, 19.0)])
def test_where_no_other_leads_after_it_nothing_counts_as_led_for_long(in_order, seconds):
    async def scenario():
        leases, line = Leases(), Line(Leases())
        leader, other = Candidate(Line(leases), "a"), Candidate(line, "b", seed=1)
        line.leases = leases
        one, two = leader.start(), other.start()
        await asyncio.sleep(5.1)
        if in_order:
            await stop(one)
        else:
            leader.line.cut = [(virtual_now(), 1e9)]
            one.cancel()
        await asyncio.sleep(0 if in_order else 0.1)
        # It never gets it: somebody who writes on the Lease all the time is in its way.
        line.replace = refuse
        led = [other.elector.is_led()]
        for _ in range(300):
            await asyncio.sleep(0.1)
            led.append(other.elector.is_led())
        assert led == sorted(led, reverse=True)
        assert seconds - 2.5 <= 0.1 * sum(led) <= seconds + 2.5
        await stop(one, two)

    async def refuse(*_):
        raise ApiError(409, "Conflict", "another version")

    run_virtually(scenario())


@pytest.mark.parametrize("runs", [True, False])
def test_where_no_lease_was_ever_seen_nobody_counts_as_leading_for_longer_than_a_handover(runs):
    """It may not be read, or this candidate stands by for other managers."""

    async def scenario():
        candidate = Candidate(line := Line(Leases()), "a")
        line.get = forbid
        tasks = [candidate.start()] if runs else []
        led = []
        for _ in range(300):
            led.append(candidate.elector.is_led())
            await asyncio.sleep(0.1)
        assert led == sorted(led, reverse=True)
        assert 4.5 <= 0.1 * sum(led) <= 7.5
        await stop(*tasks)

    async def forbid(*_):
        raise ApiError(403, "Forbidden", "leases")

    run_virtually(scenario())


@given(delay=st.floats(0, 6), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_takes_over_from_a_leader_that_died_within_15_seconds_and_not_before_its_lease_is_over(delay, seed):
    async def scenario():
        leases = Leases()
        dead = Line(leases)
        first, second = Candidate(dead, "a"), Candidate(Line(leases), "b", seed=seed)
        one = first.start()
        await asyncio.sleep(1)
        other = second.start()
        await asyncio.sleep(10 + delay)
        died = virtual_now()
        dead.cut = [(died, 1e9)]  # as if it were gone: its last renewal is the last
        for _ in range(400):
            if second.elector.holds():
                break
            await asyncio.sleep(0.05)
        assert 9 < virtual_now() - died < 15
        await stop(one, other)

    run_virtually(scenario())


def test_a_clock_on_the_wall_that_is_hours_off_changes_nothing():
    async def scenario():
        leases = Leases()
        first = Candidate(Line(leases), "a", wall_offset=-7200)
        second = Candidate(Line(leases), "b", wall_offset=7200)
        tasks = [first.start(), second.start()]
        await asyncio.sleep(100)
        assert [c.elector.leading for c in (first, second)].count(True) == 1
        await stop(*tasks)

    run_virtually(scenario())


def test_work_is_over_before_anybody_else_could_lead_when_the_server_is_lost():
    async def scenario():
        leases = Leases()
        first = Candidate(Line(leases, cut=[(20, 60)]), "a", ending=3.0)
        second = Candidate(Line(leases), "b")
        one = first.start()
        await asyncio.sleep(1)
        other = second.start()
        await asyncio.sleep(50)
        ((_, ended),) = first.terms
        assert ended < 20 + 12
        assert second.elector.holds()
        assert not first.elector.holds()
        await stop(one, other)

    run_virtually(scenario())


def test_outages_shorter_than_the_renewal_limit_and_lost_answers_change_no_leader():
    async def scenario():
        leases = Leases()
        line = Line(leases, cut=[(10, 14), (30, 35)], lost_answers=[(50, 53)])
        candidate = Candidate(line, "a")
        task = candidate.start()
        await asyncio.sleep(100)
        assert candidate.terms == []
        assert candidate.elector.holds()
        await stop(task)

    run_virtually(scenario())


def test_a_lease_that_another_took_ends_the_term_at_the_next_renewal():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")
        task = candidate.start()
        await asyncio.sleep(5)
        leases.write({**leases.lease, "spec": {**leases.lease["spec"], "holderIdentity": "x"}})
        await asyncio.sleep(2.5)
        assert len(candidate.terms) == 1
        assert not candidate.elector.holds()
        await stop(task)

    run_virtually(scenario())


def test_a_deleted_lease_ends_the_term():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")
        task = candidate.start()
        await asyncio.sleep(5)
        leases.lease = None
        await asyncio.sleep(5)
        assert len(candidate.terms) == 1
        assert candidate.elector.holds()  # it made a new one, and leads again
        await stop(task)

    run_virtually(scenario())


def test_a_label_on_the_lease_ends_nothing():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")
        task = candidate.start()
        await asyncio.sleep(5)
        leases.write(leases.lease)
        await asyncio.sleep(20)
        assert candidate.terms == []
        await stop(task)

    run_virtually(scenario())


def test_an_own_end_of_the_work_gives_the_lease_back_and_ends_the_run():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")

        async def lead():
            await asyncio.sleep(3)

        await candidate.elector.run(lead)
        assert leases.lease["spec"]["holderIdentity"] == ""
        assert not candidate.elector.leading

    run_virtually(scenario())


def test_an_error_of_the_work_is_raised_after_the_lease_is_given_back():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases), "a")

        async def lead():
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await candidate.elector.run(lead)
        assert leases.lease["spec"]["holderIdentity"] == ""

    run_virtually(scenario())


def test_work_that_does_not_end_with_its_term_is_an_error_and_the_lease_is_not_given_back():
    async def scenario():
        leases = Leases()
        candidate = Candidate(Line(leases, cut=[(10, 30)]), "a", ending=60.0)
        with pytest.raises(StillWorkingError, match="a leads no more"):
            await candidate.elector.run(candidate.lead)
        assert virtual_now() <= 10 + 12
        assert leases.lease["spec"]["holderIdentity"] == "a"

    run_virtually(scenario())


spans = st.lists(
    st.tuples(st.floats(0, 120), st.floats(0.1, 30)).map(lambda pair: (pair[0], pair[0] + pair[1])),
    max_size=5,
)


@given(
    lines=st.lists(st.tuples(spans, spans, st.floats(0.01, 1.0)), min_size=2, max_size=3),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None)
def test_never_do_two_lead_at_once(lines, seed):
    """Whatever is cut and lost: at no moment hold two, no term overlaps another, and one leads in the end."""

    async def scenario():
        leases = Leases()
        candidates = [
            Candidate(
                Line(leases, latency=latency, cut=cut, lost_answers=lost), f"c{n}", seed=seed + n, ending=1.0
            )
            for n, (cut, lost, latency) in enumerate(lines)
        ]
        tasks = [candidate.start() for candidate in candidates]
        while virtual_now() < 200:
            await asyncio.sleep(0.1)
            assert sum(candidate.elector.holds() for candidate in candidates) <= 1
            assert sum(candidate.elector.leading for candidate in candidates) <= 1
        assert any(candidate.elector.holds() for candidate in candidates)
        await stop(*tasks)
        terms = sorted(term for candidate in candidates for term in candidate.terms)
        assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(terms))

    run_virtually(scenario())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"renew_seconds": 12.0}, "renew_seconds 12.0"),
        ({"call_seconds": 9.0}, "call_seconds 9.0"),
        ({"retry_seconds": 0.0}, "retry_seconds 0.0"),
    ],
)
def test_times_that_leave_no_room_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Candidate(Line(Leases()), "a", **options)


def test_an_empty_identity_is_refused():
    with pytest.raises(ValueError, match="identity is empty"):
        Candidate(Line(Leases()), "")


def test_what_others_write_on_the_lease_stays_and_is_noticed():
    """An annotation that comes while it is held, and one that was there before, reach who leads or is to."""

    async def scenario():
        leases, seen = Leases(), []
        notice = {"labels": {"mark": "ours"}, "noticed": lambda lease: seen.append(pause_reason(lease))}
        first = Candidate(Line(leases), "a", **notice)
        task = first.start()
        await asyncio.sleep(1)
        assert set(seen) == {None}
        assert leases.lease["metadata"]["labels"] == {"mark": "ours"}
        annotated = copy.deepcopy(leases.lease)
        annotated["metadata"]["annotations"] = pause_patch("why")["metadata"]["annotations"]
        leases.write(annotated)
        await asyncio.sleep(3)
        assert seen[-1] == "why"
        assert first.elector.holds()
        await asyncio.sleep(30)
        await stop(task)
        seen.clear()
        task = Candidate(Line(leases), "b", seed=1, **notice).start()
        await asyncio.sleep(1)
        assert set(seen) == {"why"}
        assert leases.lease["spec"]["holderIdentity"] == "b"
        await stop(task)

    run_virtually(scenario())


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        (None, None),
        ({}, None),
        ({"specon.io/paused": ""}, ""),
        ({"specon.io/paused": " for\nan hour "}, "for an hour"),
        ({"specon.io/paused": "x" * 2000}, "x" * 512),
    ],
)
def test_a_pause_is_what_the_annotation_says(annotations, reason):
    """The reason is on one line and bounded, no matter who wrote it; no annotation means no pause."""
    assert pause_reason({"metadata": {"annotations": annotations}}) == reason
    assert pause_patch(None) == {"metadata": {"annotations": {"specon.io/paused": None}}}
