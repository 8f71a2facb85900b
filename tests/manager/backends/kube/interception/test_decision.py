"""What evictions are answered with, by all that is known of the pod."""

import msgspec
import pytest

from specon_manager.backends.kube.interception.decision import ATTEMPTS, EVACUATION, Situation, review
from specon_manager.backends.kube.interception.eviction import Eviction
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.pins import NAME_TAKEN
from specon_manager.model.transactions import HAS_WAITED, MAY_GO, YIELDING
from support.kube.eviction_facts import NOW, UID, pod, wish

EVICTION = Eviction(review="r", namespace="training", name="train-0", user="admin")


def answer(eviction=EVICTION, **known):
    known = {"pod": pod(), "patience": 60.0, **known}
    return review(eviction, Situation(**known), NOW)


def test_what_can_be_moved_is_wished_for_once_and_asked_again_later():
    """429 with the descheduler's words; the wish is written at the first time only."""
    first = answer()
    assert (first.verdict, first.attempt) == ("wait", 1)
    assert EVACUATION in first.words
    again = answer(wishes=[wish()])
    assert (again.verdict, again.attempt) == ("wait", 0)


@pytest.mark.parametrize(
    "known",
    [
        {"pod": None},
        {"pod": pod(phase="Succeeded")},
        {"pod": pod(deleting=True)},
        {"own_user": "admin"},
        {"wishes": [wish(MoveState.SUCCEEDED, ended=NOW - 500)]},
    ],
    ids=["no-sidecar", "ended", "deleted", "own", "moved"],
)
def test_what_is_not_ours_to_keep_passes_without_a_word(known):
    """Neither event nor warning."""
    found = answer(**known)
    assert (found.verdict, found.words) == ("pass", "")


def test_another_uid_is_for_the_api_server_to_refuse():
    """The caller of an eviction names the pod that it means."""
    other = msgspec.structs.replace(EVICTION, uid="another")
    assert answer(other).verdict == "pass"


@pytest.mark.parametrize(
    ("known", "why", "warning"),
    [
        ({"pod": pod(annotations={"specon.io/migrate": "false"})}, "its owner", True),
        ({"wishes": [wish(MoveState.REFUSED, message="its volume is local")]}, "its volume is local", True),
        ({"wishes": [wish(age=61)]}, "is not over after 61 s", True),
        ({"wishes": [wish(MoveState.CHECKPOINTING, age=61)]}, "is not over after 61 s", True),
        ({"wishes": [wish(MoveState.ROLLED_BACK)] * ATTEMPTS}, "3 moves failed", True),
        ({"wishes": [wish(MoveState.ROLLED_BACK, purpose=YIELDING, message=MAY_GO)]}, "may go", False),
        ({"wishes": [wish(MoveState.REFUSED, message=MAY_GO)]}, "may go", False),
        ({"led": False}, "no manager leads", False),
    ],
)
def test_what_cannot_be_moved_or_has_waited_passes_with_the_reason(known, why, warning):
    """It is never kept for ever."""
    found = answer(**known)
    assert (found.verdict, found.warning) == ("pass", warning)
    assert why in found.words


def test_a_move_that_failed_is_tried_again():
    """Under another name, so that the wish is another one."""
    found = answer(wishes=[wish(MoveState.ROLLED_BACK)])
    assert (found.verdict, found.attempt) == ("wait", 2)


HOURS = 6 * 3600.0


@pytest.mark.parametrize(
    "change",
    [
        {"state": MoveState.ROLLED_BACK, "message": "node-4 is gone"},
        {"state": MoveState.REFUSED, "message": "it is Starting, not running"},
        {"state": MoveState.ROLLED_BACK, "message": MAY_GO, "purpose": YIELDING},
        {"state": MoveState.REFUSED, "message": MAY_GO},
    ],
)
def test_what_became_of_a_move_this_morning_lets_nobody_go_unsaved_this_afternoon(change):
    """The caller of that time has given up, and the checkpoint of that time is not a current one."""
    morning = [wish(age=HOURS + 60, ended=NOW - HOURS, **change) for _ in range(ATTEMPTS)]
    found = answer(wishes=morning)
    assert (found.verdict, found.attempt) == ("wait", 2)
    afternoon = wish(age=20, number=2)
    assert answer(wishes=[*morning, afternoon]).verdict == "wait"
    assert answer(wishes=[*morning, afternoon], pod=pod(deleting=True)).verdict == "wait"


def test_whoever_asks_every_few_minutes_is_one_and_not_put_off_for_ever():
    """The descheduler comes every five minutes, and its patience counts from its first eviction."""
    asked = [
        wish(MoveState.ROLLED_BACK, age=300.0 * n + 60, ended=NOW - 300.0 * n, number=9 - n) for n in (2, 1)
    ]
    assert answer(wishes=asked, patience=1800.0).verdict == "wait"
    found = answer(wishes=asked, patience=600.0)
    assert (found.verdict, found.warning) == ("pass", True)


def test_who_may_go_is_saved_anew_where_nobody_came_for_long():
    """What it trained meanwhile would be lost."""
    may_go = {"state": MoveState.ROLLED_BACK, "message": MAY_GO, "purpose": YIELDING}
    soon, late = (wish(age=ago + 30, ended=NOW - ago, **may_go) for ago in (300, 900))
    assert answer(wishes=[soon], patience=1800.0).verdict == "pass"
    found = answer(wishes=[late], patience=1800.0)
    assert (found.verdict, found.attempt) == ("wait", 2)


@pytest.mark.parametrize("message", [f"{NAME_TAKEN}evict-1 before", f"{HAS_WAITED}3600 s: others move"])
def test_a_refusal_that_says_nothing_of_the_pod_lets_it_go_only_after_its_patience(message):
    """Somebody deleted the wish, or it waited for an hour where the pod has two."""
    refused = wish(MoveState.REFUSED, age=3601, ended=NOW - 1, message=message)
    found = answer(pod=pod(annotations={"specon.io/eviction-patience": "2h"}), wishes=[refused])
    assert (found.verdict, found.attempt) == ("wait", 2)
    assert answer(wishes=[refused]).verdict == "pass"


def test_what_waits_for_others_has_one_patience_for_whoever_asks_every_few_minutes():
    """The wish waited for an hour, and the next eviction comes more than a minute after that."""
    asked = [
        wish(MoveState.REFUSED, age=3900.0 * n, ended=NOW - 3900.0 * n + 3600, message=f"{HAS_WAITED}3600 s")
        for n in (3, 2, 1)
    ]
    patient = pod(annotations={"specon.io/eviction-patience": "2h"})
    found = answer(pod=patient, wishes=asked)
    assert (found.verdict, found.warning) == ("pass", True)


@pytest.mark.parametrize(("age", "verdict", "attempt"), [(59, "pass", 0), (61, "wait", 2)])
def test_a_refusal_counts_for_a_minute(age, verdict, attempt):
    """The manager was paused, and is not any more: the pod was not evicted meanwhile."""
    refused = wish(MoveState.REFUSED, age=age + 1, ended=NOW - age, message="the manager is paused")
    found = answer(wishes=[refused])
    assert (found.verdict, found.attempt) == (verdict, attempt)


@pytest.mark.parametrize("wishes", [[], [wish(age=-5)]], ids=["none", "by another clock"])
def test_a_patience_of_0_asks_for_no_move(wishes):
    """Also where the API server's clock, by which a wish is made, is ahead."""
    found = answer(pod=pod(annotations={"specon.io/eviction-patience": "0"}), wishes=wishes)
    assert (found.verdict, found.attempt) == ("pass", 0)


@pytest.mark.parametrize(
    ("ages", "verdict", "attempt"),
    [
        ([10], "wait", 0),
        ([240], "wait", 2),
        ([1801, 900, 10], "pass", 0),
        ([*range(8, 0, -1)], "pass", 0),
    ],
    ids=["saved", "asked again", "too long", "more are not kept"],
)
def test_a_bare_pod_waits_for_room_until_its_patience_is_over(ages, verdict, attempt):
    """Nobody creates the next one: it would never train again, whatever was saved."""
    saved = [
        wish(MoveState.ROLLED_BACK, age=age, ended=NOW - age, purpose=YIELDING, message=MAY_GO)
        for age in ages
    ]
    found = answer(pod=pod(bare=True), wishes=saved, patience=1800.0)
    assert (found.verdict, found.attempt) == (verdict, attempt)
    assert answer(wishes=saved, patience=1800.0).verdict == "pass"


def test_a_new_wish_has_a_name_that_none_has_where_old_ones_are_tidied_away():
    """Else it would never be written."""
    left = [wish(MoveState.ROLLED_BACK, age=HOURS, ended=NOW - HOURS, number=n) for n in (4, 11, 7)]
    assert answer(wishes=left).attempt == 12


def test_a_pod_has_a_patience_of_its_own():
    """Its annotation goes before the settings."""
    patient = pod(annotations={"specon.io/eviction-patience": "2m"})
    assert answer(pod=patient, wishes=[wish(age=61)]).verdict == "wait"
    hasty = pod(annotations={"specon.io/eviction-patience": "0"})
    assert answer(pod=hasty, wishes=[wish(age=0)]).verdict == "pass"


NEXT = "0a1b2c3d-0000-0000-0000-000000000002"


@pytest.mark.parametrize("former", [wish(), wish(MoveState.SUCCEEDED, ended=NOW - 5)], ids=["open", "over"])
@pytest.mark.parametrize("there", [None, pod(uid=NEXT, node="node-1"), pod(uid=NEXT, node="")])
def test_who_asks_again_by_the_name_is_told_that_it_is_gone(former, there):
    """The next pod of that name may run elsewhere, may wait, or may not be there yet."""
    assert answer(pod=there, former=former).verdict == "gone"


@pytest.mark.parametrize(
    "known",
    [
        {"emptied": True},
        {"pod": pod(uid=NEXT, node="node-0")},
        {"former": wish(MoveState.SUCCEEDED, ended=NOW - 500)},
    ],
    ids=["its node is emptied too", "it is on the same node", "long ago"],
)
def test_the_next_pod_is_moved_where_it_is_meant(known):
    """A second drain is no repetition of the first."""
    known = {"pod": pod(uid=NEXT, node="node-1"), "former": wish(MoveState.SUCCEEDED, ended=NOW - 5), **known}
    found = answer(**known)
    assert (found.verdict, found.attempt) == ("wait", 1)


@pytest.mark.parametrize(("age", "led", "verdict"), [(10, False, "pass"), (3700, True, "wait")])
def test_a_move_that_nobody_makes_has_moved_nothing(age, led, verdict):
    """Where nobody leads, or for longer than the patience, an open wish does not make the next pod gone."""
    there = pod(uid=NEXT, node="node-1")
    assert answer(pod=there, former=wish(age=age), led=led).verdict == verdict


def budget(name="keep", allowed=0):
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
    }
    return {
        "metadata": {"name": name, "uid": name, "generation": 1},
        "spec": {"selector": {"matchLabels": {"job": "train"}}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("budgets", "verdict"),
    [([budget()], "pass"), ([budget(allowed=1)], "wait"), ([budget(allowed=1), budget("two", 1)], "pass")],
    ids=["none may go", "one may go", "two budgets"],
)
def test_a_budget_that_forbids_it_has_the_api_servers_own_answer(budgets, verdict):
    """So has a pod with two budgets, which the API server evicts never."""
    found = answer(budgets=budgets)
    assert (found.verdict, found.by_budget) == (verdict, verdict == "pass")
    assert (not found.words) == (verdict == "pass")


@pytest.mark.parametrize(
    ("there", "wishes"),
    [
        (pod(), []),
        (pod(), [wish()]),
        (pod(deleting=True), [wish(MoveState.EVICTING)]),
        (pod(phase="Failed"), [wish(MoveState.RESTORING)]),
    ],
    ids=["not asked for", "asked for", "on its way out", "ended by its move"],
)
def test_a_dry_run_is_never_told_to_come_again(there, wishes):
    """Nothing would have changed by then, and it takes nothing from the pod."""
    found = answer(msgspec.structs.replace(EVICTION, dry_run=True), pod=there, wishes=wishes)
    assert (found.verdict, found.attempt) == ("pass", 0)
    assert "would be moved" in found.words


@pytest.mark.parametrize("there", [pod(phase="Failed"), pod(deleting=True), pod()])
def test_what_was_moved_is_gone_though_its_end_is_not_known_yet(there):
    """Its name may be that of the next pod by now, which would be evicted in its place."""
    with_its_gang = wish(MoveState.REFUSED, ended=NOW - 1, message="it has left node-0")
    for moved in (wish(MoveState.SUCCEEDED, ended=NOW - 1), with_its_gang):
        assert answer(pod=there, wishes=[moved]).verdict == "gone"
    named = msgspec.structs.replace(EVICTION, uid=UID)
    assert answer(named, pod=there, wishes=[wish(MoveState.SUCCEEDED, ended=NOW - 1)]).verdict == "pass"


def test_what_has_ended_by_its_move_is_not_let_go_by_its_name():
    """Between its end and the next pod nobody knows which of them an eviction finds."""
    assert answer(pod=pod(phase="Failed"), wishes=[wish(MoveState.RESTORING)]).verdict == "wait"


def test_the_grace_period_of_what_is_on_its_way_out_is_not_cut_short():
    """An eviction with a shorter one has to wait, within the same patience."""
    leaving = pod(deleting=True)
    assert answer(pod=leaving, wishes=[wish(MoveState.EVICTING)]).verdict == "wait"
    assert answer(pod=leaving, wishes=[wish(MoveState.EVICTING, age=61)]).verdict == "pass"
