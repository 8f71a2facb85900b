"""What an eviction of a pod is answered with. Pure.

| the pod | answer |
|---|---|
| is none of ours, or has ended; the manager itself evicts it | it passes |
| would be told to wait, were it not a dry run | it passes, and the caller is told |
| ends by its move | 429: what comes next may have its name |
| is not there, or a new one on a node that nobody empties, and that of its name was moved | 404: it is gone |
| may not go by its disruption budget | what the API server says of that this moment, by a dry run |
| could be moved, but nobody leads | it passes, and the caller is told |
| cannot be moved | it passes, with the reason |
| can be moved, or is being moved | 429, and a wish for its move is kept |
| was saved, and no other node can take it | it passes if it has an owner, who creates the next one |
| has been kept for longer than `patience`, or its moves failed three times | it passes, with a warning |

The result of a move counts for the caller who keeps asking for it. An eviction of the same pod hours later
is another caller's, and the pod moves from a checkpoint of then. A refusal counts for a minute: the pod was
not evicted then, and what stood in the way of its move may be over.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.interception.eviction import Answer, Eviction
from specon_manager.backends.kube.interception.facts import PodFacts
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.selectors import selects
from specon_manager.backends.kube.owners.budgets import objections
from specon_manager.backends.kube.records.external import MoveState
from specon_manager.backends.kube.records.pins import NAME_TAKEN, Glance
from specon_manager.model.transactions import HAS_LEFT, HAS_WAITED, MAY_GO, YIELDING
from specon_sidecar.counts import format_count

EVACUATION: Final = "Eviction triggered evacuation"
"""Words by which the descheduler knows that an eviction is under way (its gate `EvictionsInBackground`)."""
ATTEMPTS: Final = 3
"""Moves of one pod that are tried before its eviction passes."""
NAMESAKE_SECONDS: Final = 120.0
"""How long after the end of a move an eviction of the next pod of that name counts as one of the former."""
FORGOTTEN_SECONDS: Final = 600.0
"""So long after the end of a move nobody waits for it any more; or after `patience`, where that is longer."""
REFUSED_SECONDS: Final = 60.0
"""How long the refusal of a move lets the pod go. Whoever evicts it later asks for the first time."""
MOST_WISHES: Final = 8
"""After so many a pod passes: ten Migrations of a replica are kept, and the oldest says how long it waits."""
ROOM_SECONDS: Final = 30.0
"""After so long, or an eighth of its patience, a bare pod without room is saved again, or moved."""
SAVED_SECONDS: Final = 600.0
"""How long after its checkpoint was verified a pod may go that has room nowhere: later it is saved again."""
_ENDED: Final = frozenset({MoveState.SUCCEEDED, MoveState.ROLLED_BACK, MoveState.FAILED, MoveState.REFUSED})
_ASKED_AGAIN: Final = (NAME_TAKEN, HAS_WAITED)
"""How refusals begin that say nothing of the pod: its move is asked for again."""
_KEEPS: Final = (MAY_GO, *_ASKED_AGAIN)
"""How refusals begin after which the pod is kept on: how long it was kept before them counts."""

SILENT: Final = Answer(verdict="pass")
FORBIDDEN: Final = Answer(verdict="pass", by_budget=True)
"""Only of a dry run it passes so; else the API server is asked before the answer. See `Desk`."""


class Situation(Struct, frozen=True, kw_only=True):
    """The facts at the review of an eviction."""

    pod: PodFacts | None
    """The pod of that name, where it has a sidecar."""
    living: bool = False
    """Whether the API server has just said that the pod is there, and was not told to end."""
    emptied: bool = False
    """Whether its node is cordoned, about to be removed, or has a taint that the pod does not tolerate."""
    wishes: Sequence[Glance] = ()
    """The wishes that evictions of this very pod were turned into, oldest first."""
    former: Glance | None = None
    """The latest wish for the move of an earlier pod of this name."""
    budgets: Sequence[Mapping[str, Any]] = ()
    """The disruption budgets of its namespace."""
    led: bool = True
    """Whether a manager leads that would move it."""
    own_user: str = ""
    """As whom the manager itself evicts."""
    patience: float = 0.0
    """Seconds, where the pod does not say otherwise."""


def review(eviction: Eviction, known: Situation, now: float) -> Answer:
    """Return the answer to an eviction; `now` in seconds, on the clock of the wishes."""
    pod, former = known.pod, known.former
    if known.own_user and eviction.user == known.own_user:
        return SILENT
    if former is not None and not (eviction.uid or known.wishes) and _is_namesake(pod, former, known, now):
        words = f"pods {eviction.name!r} not found: the pod of this name was moved off {former.leave}"
        return Answer(verdict="gone", words=words)
    if pod is None or not pod.replica:
        return SILENT
    if eviction.uid and eviction.uid != pod.uid:
        return SILENT  # the API server says that it is another one
    if not (eviction.uid or known.living) and _has_moved(known, now):
        return Answer(verdict="gone", words=f"pods {eviction.name!r} not found: it was moved")
    answer = _of_pod(pod, known, now)
    if eviction.dry_run and answer.verdict == "wait":
        # A dry run changes nothing, so its caller would ask for ever; and it cuts nothing short.
        return Answer(verdict="pass", words=f"specon: {pod.replica} would be moved from a checkpoint first")
    return answer


def is_forbidden(pod: PodFacts, budgets: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the API server would not let the pod go: by its budget, or since it has several."""
    labels = mapping(mapping(pod.budgeted["metadata"]).get("labels"))
    found = [
        dict(each)
        for each in budgets
        if selects(mapping(each.get("spec")).get("selector"), labels, unknown=True)
    ]
    return len(found) > 1 or bool(objections(found, [dict(pod.budgeted)], {}))


def is_open(wish: Glance) -> bool:
    """Whether its move has not ended, or not begun yet."""
    return wish.state not in _ENDED


def is_put_off(pod: PodFacts, known: Situation, now: float) -> bool:
    """Whether the caller is to wait for a move under way, and has not waited for too long."""
    wishes = _of_this_time(pod, known, now)
    if not wishes or not is_open(wishes[-1]):
        return False
    return _measure_wait(wishes, now) < _patience(pod, known)


def _is_namesake(pod: PodFacts | None, former: Glance, known: Situation, now: float) -> bool:
    """Whether the evicted pod is not there any more: another pod elsewhere has its name now."""
    if pod is not None and (known.emptied or pod.node == former.leave):
        return False
    patience = known.patience if pod is None else _patience(pod, known)
    is_under_way = is_open(former) and known.led and now - former.created_at < patience
    return is_under_way or now - former.ended_at <= NAMESAKE_SECONDS


def _has_moved(known: Situation, now: float) -> bool:
    """Whether the very pod was moved a moment ago: it is gone, though that may not be known here yet."""
    last = known.wishes[-1] if known.wishes else None
    if last is None or now - last.ended_at > NAMESAKE_SECONDS:
        return False
    with_others = last.state is MoveState.REFUSED and last.message.startswith(HAS_LEFT)
    return with_others or last.state is MoveState.SUCCEEDED


def _of_pod(pod: PodFacts, known: Situation, now: float) -> Answer:
    if pod.ended or pod.leaving:
        return _of_leaving(pod, known, now)
    if not known.led:
        return Answer(verdict="pass", words="specon: no manager leads that could move it from a checkpoint")
    if is_forbidden(pod, known.budgets):
        return FORBIDDEN
    return _of_wishes(pod, known, now)


def _of_leaving(pod: PodFacts, known: Situation, now: float) -> Answer:
    """Return the answer of a pod that has ended, or was told to.

    Another eviction could cut its grace period short; or find that the next pod has its name by now.
    """
    wishes = _of_this_time(pod, known, now)
    if not wishes or not is_open(wishes[-1]) or _measure_wait(wishes, now) >= _patience(pod, known):
        return SILENT
    return _waits(pod, "it is on its way out")


def _patience(pod: PodFacts, known: Situation) -> float:
    return known.patience if pod.patience is None else pod.patience


def _measure_wait(wishes: Sequence[Glance], now: float) -> float:
    return max(0.0, now - min(each.created_at for each in wishes))


def _of_this_time(pod: PodFacts, known: Situation, now: float) -> Sequence[Glance]:
    """Return the wishes of the present caller, oldest first: earlier callers gave up long ago."""
    gap = max(FORGOTTEN_SECONDS, _patience(pod, known))
    found: list[Glance] = []
    asked_again = now
    for wish in reversed(known.wishes):
        stays = is_open(wish) or wish.state is MoveState.SUCCEEDED
        lets_go = wish.state is MoveState.REFUSED and not wish.message.startswith(_KEEPS)
        if not stays and asked_again - _find_end(wish) > (REFUSED_SECONDS if lets_go else gap):
            break
        found.append(wish)
        asked_again = wish.created_at
    return found[::-1]


def _find_end(wish: Glance) -> float:
    return max(wish.ended_at, wish.created_at)


def _next_attempt(wishes: Sequence[Glance]) -> int:
    """Return the number of a wish that there was none of: old ones are tidied away.

    The leader knows the names of those that somebody deleted, too: after such a one the number is doubled.
    """
    numbers = (wish.name.name.removeprefix(f"evict-{wish.evicted.rpartition('/')[2]}") for wish in wishes)
    last = max((int(each[1:]) if each[1:].isdecimal() else 1 for each in numbers), default=0)
    return last * 2 if wishes and _is_of_taken_name(wishes[-1]) else last + 1


def _is_of_taken_name(wish: Glance) -> bool:
    return wish.state is MoveState.REFUSED and wish.message.startswith(NAME_TAKEN)


def _of_wishes(pod: PodFacts, known: Situation, now: float) -> Answer:
    wishes, attempt = _of_this_time(pod, known, now), _next_attempt(known.wishes)
    patience = _patience(pod, known)
    if patience <= 0:
        return _passes(pod, "nobody waits for its move (a patience of 0)", warning=True)
    if not wishes:
        if not pod.movable:
            return _passes(pod, "its owner does not allow a move", warning=True)
        return _waits(pod, "a move is asked for", attempt=attempt)
    last, waited = wishes[-1], _measure_wait(wishes, now)
    if is_open(last):
        if waited >= patience:
            return _passes(pod, f"its move is not over after {waited:.0f} s", warning=True)
        return _waits(pod, last.message or f"its move is {last.state or 'asked for'}")
    moves = sum(each.state is not MoveState.REFUSED for each in wishes)
    asked = sum(not _is_of_taken_name(each) for each in wishes)
    in_time = waited < patience and asked < MOST_WISHES
    if last.message == MAY_GO and (last.purpose == YIELDING or last.state is MoveState.REFUSED):
        age, pause = now - _find_end(last), max(ROOM_SECONDS, patience / MOST_WISHES)
        return _of_saved(pod, age, attempt, in_time=in_time, pause=pause)
    return _of_result(pod, last, moves, attempt, in_time=in_time)


def _of_result(pod: PodFacts, last: Glance, moves: int, attempt: int, *, in_time: bool) -> Answer:
    """Return the answer where the last of so many moves is over; `in_time`: patience is not."""
    if last.state is MoveState.SUCCEEDED:
        return SILENT
    if last.state is MoveState.REFUSED:
        if in_time and last.message.startswith(_ASKED_AGAIN):
            return _waits(pod, "a move is asked for again", attempt=attempt)
        return _passes(pod, last.message, warning=True)
    if moves >= ATTEMPTS or not in_time:
        failed = format_count(moves, "move")
        return _passes(pod, f"{failed} failed, the last one: {last.message}", warning=True)
    return _waits(pod, "a move failed and is tried again", attempt=attempt)


def _of_saved(pod: PodFacts, age: float, attempt: int, *, in_time: bool, pause: float) -> Answer:
    """Return the answer of a pod that no other node can take, so many seconds after it was saved.

    Nobody creates a bare pod again. It stays, is moved once there is room, and goes when its time is over.
    """
    if not pod.owned:
        if not in_time:
            return _passes(pod, f"{MAY_GO}; nobody creates a bare pod again", warning=True)
        again = attempt if age > pause else 0
        return _waits(pod, "it is saved, and a bare pod waits for room on another node", attempt=again)
    if age <= SAVED_SECONDS:
        return _passes(pod, MAY_GO)
    return _waits(pod, "its checkpoint is old by now, and it is saved again", attempt=attempt)


def _waits(pod: PodFacts, why: str, attempt: int = 0) -> Answer:
    words = f"{EVACUATION}: specon moves {pod.replica} from a checkpoint: {why}"
    return Answer(verdict="wait", words=words, attempt=attempt)


def _passes(pod: PodFacts, why: str, *, warning: bool = False) -> Answer:
    return Answer(verdict="pass", words=f"specon lets {pod.replica} be evicted: {why}", warning=warning)
