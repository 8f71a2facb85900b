"""What changed for a job as a whole that its owner wants to read, in plain words. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from specon_manager.backends.kube.telling.note import Note
from specon_manager.core.state import State
from specon_manager.core.waiting import Waiting
from specon_manager.model.changes import Change, ChangeKind, ChangeState
from specon_manager.model.cluster import role_of

_BEGUN: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.ADMIT: "Admitting",
    ChangeKind.SCALE_OUT: "ScalingOut",
    ChangeKind.SCALE_IN: "ScalingIn",
    ChangeKind.PREEMPT: "Preempting",
}
_ENDED: Final[Mapping[ChangeKind, str]] = {
    ChangeKind.ADMIT: "Admitted",
    ChangeKind.SCALE_OUT: "ScaledOut",
    ChangeKind.SCALE_IN: "ScaledIn",
    ChangeKind.PREEMPT: "Preempted",
}
_SHOWN: Final = 10
"""Nodes that are named."""


def words_of_changes(before: State, after: State) -> Iterator[Note]:
    """Yield what there is to tell of changes after a step from `before` to `after`."""
    if after.changes is not before.changes:
        for change in after.changes.values():
            yield from _in_flight(before.changes.get(change.job), change)
    if after.change_history is not before.change_history:
        known = {change.id for change in before.change_history}
        for change in after.change_history:
            if change.id not in known:
                yield _over(change)


def words_of_waits(before: Mapping[str, Waiting], after: Mapping[str, Waiting]) -> Iterator[Note]:
    """Yield what jobs wait for that did not wait for something of that kind before.

    Places in queues and amounts change all the time: they are in the words, but are no news by themselves.
    """
    for job, waiting in after.items():
        former = before.get(job)
        if former is not None and former.kind == waiting.kind:
            continue
        queue = f" of queue {waiting.queue}" if waiting.queue else ""
        yield _note(
            job,
            "QuotaExceeded" if waiting.kind == "quota" else "Waiting",
            "Queue",
            f"waits at position {waiting.position}{queue}: {waiting.text}",
            topic=waiting.kind,
        )


def _in_flight(former: Change | None, change: Change) -> Iterator[Note]:
    if former is None or former.id != change.id:
        words = {
            ChangeKind.ADMIT: f"starting on {_nodes(change.after)}",
            ChangeKind.PREEMPT: f"to end, and to wait again{_beneficiary(change)}",
        }
        what = words.get(change.kind, f"from {_workers(change.before)} to {_workers(change.after)} workers")
        yield _of(change, _BEGUN[change.kind], f"{what}: {change.reason}")
    if change.attempt > 1 and (former is None or former.id != change.id or former.attempt == 1):
        why = f": {change.note}" if change.note else ""
        yield _of(change, "ChangeTurnedBack", f"{change.kind}: going back{why}", warning=True)


def _over(change: Change) -> Note:
    why = change.note or "no reason is known"
    if change.state is ChangeState.ROLLED_BACK:
        return _of(change, "ChangeRolledBack", f"{change.kind}: rolled back: {why}", warning=True)
    if change.state is ChangeState.FAILED:
        return _of(change, "ChangeFailed", f"{change.kind} failed: {why}", warning=True)
    saved = "" if change.checkpoint is None else f"from the checkpoint of step {change.checkpoint.step}"
    if change.kind is ChangeKind.ADMIT:
        text = f"admitted: runs on {_nodes(change.after)}"
    elif change.kind is ChangeKind.PREEMPT:
        text = f"preempted{_beneficiary(change)}; it waits again, and goes on {saved or 'from what it saved'}"
    else:
        pause = "" if change.downtime is None else f" after {change.downtime:.1f} s of downtime"
        numbers = f"from {_workers(change.before)} to {_workers(change.after)} workers"
        text = f"{numbers}, on {_nodes(change.after)}{saved and f', {saved}'}{pause}"
    return _of(change, _ENDED[change.kind], text)


def _beneficiary(change: Change) -> str:
    return f" for {change.beneficiary}" if change.beneficiary else ""


def _workers(placement: Mapping[str, str]) -> int:
    return sum(role_of(name) != "ps" for name in placement)


def _nodes(placement: Mapping[str, str]) -> str:
    """Return the nodes with how many replicas each has, those with most first."""
    counted = Counter(node or "any node" for node in placement.values())
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(node if count == 1 else f"{node} ({count})" for node, count in ordered[:_SHOWN])
    return shown if len(ordered) <= _SHOWN else f"{shown} and {len(ordered) - _SHOWN} more"


def _of(change: Change, reason: str, text: str, *, warning: bool = False) -> Note:
    action = "Scale" if "scale" in change.kind else change.kind.capitalize()
    return _note(change.job, reason, action, text, topic=change.id, warning=warning)


def _note(job: str, reason: str, action: str, text: str, *, topic: str, warning: bool = False) -> Note:
    return Note(
        replica=job, whole=True, reason=reason, action=action, text=text, topic=topic, warning=warning
    )
