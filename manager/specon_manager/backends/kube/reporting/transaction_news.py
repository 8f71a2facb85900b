"""What became of transactions that the owner of a job wants to read, in plain words. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from specon_manager.backends.kube.reporting.note import Note
from specon_manager.core.state import State
from specon_manager.model.cluster import role_of
from specon_manager.model.transactions import (
    MAY_GO,
    SAVED,
    SAVING,
    YIELDING,
    Kind,
    Transaction,
    TransactionState,
)
from specon_sidecar.counts import format_count

_BEGUN: Final[Mapping[Kind, str]] = {
    Kind.MOVE: "MoveOrdered",
    Kind.ADMIT: "Admitting",
    Kind.SCALE_OUT: "ScalingOut",
    Kind.SCALE_IN: "ScalingIn",
    Kind.PREEMPT: "Preempting",
    Kind.RESTART: "RestartingHung",
    Kind.PUT_BACK: "PuttingBack",
}
_SUCCEEDED: Final[Mapping[Kind, str]] = {
    Kind.MOVE: "Resumed",
    Kind.ADMIT: "Admitted",
    Kind.SCALE_OUT: "ScaledOut",
    Kind.SCALE_IN: "ScaledIn",
    Kind.PREEMPT: "Preempted",
    Kind.RESTART: "RestartedHung",
    Kind.PUT_BACK: "PutBack",
}
_SHOWN: Final = 10
"""Nodes that are named."""


def words_of_transactions(before: State, after: State) -> Iterator[Note]:
    """Yield what there is to tell of transactions after a step from `before` to `after`."""
    if after.transactions is not before.transactions:
        for each in after.transactions.values():
            yield from _in_flight(before.transactions.get(each.id), each)
    if after.history is not before.history:
        known = {each.id for each in before.history}
        for each in after.history:
            if each.id not in known and each.state is not TransactionState.REFUSED:
                yield _over(each)


def _in_flight(former: Transaction | None, each: Transaction) -> Iterator[Note]:
    if former is None:
        yield _of(each, _BEGUN[each.kind], f"{_beginning(each)}: {each.reason}")
    if each.attempt > 1 and (former is None or former.attempt == 1):
        reason = "MovingBack" if each.kind is Kind.MOVE else "ChangeTurnedBack"
        where = f" to {_nodes(each.before, each)}" if each.kind is Kind.MOVE else ""
        yield _of(each, reason, f"{_name(each)}going back{where}{_because(each)}", warning=True)
    if each.stuck and (former is None or not former.stuck):
        yield _of(each, "Stuck", f"{_name(each)}cannot come to an end: {each.stuck}", warning=True)
    if each.kind is Kind.MOVE and former is not None:
        yield from _along(former, each)


def _along(former: Transaction, move: Transaction) -> Iterator[Note]:
    """Yield what a move in flight has reached."""
    if (former.state, former.attempt) == (move.state, move.attempt):
        return
    if move.state is TransactionState.LEAVING and move.attempt == 1:
        saved = "it saves when it ends"
        if move.checkpoint is not None:
            saved = f"checkpoint of step {move.checkpoint.step} verified"
        yield _of(move, "CheckpointVerified", f"{saved}; leaving {_nodes(move.before, move)}")
    if move.state is TransactionState.VERIFYING:
        step = "" if move.checkpoint is None else f" from the checkpoint of step {move.checkpoint.step}"
        text = f"restored on {_nodes(move.wanted, move)}{step}; waiting for a later step"
        yield _of(move, "Restored", text, topic=f"{move.id} {move.attempt}")


def _over(each: Transaction) -> Note:
    moves = each.kind is Kind.MOVE
    why = each.note or "no reason is known"
    if each.purpose == YIELDING and each.note == MAY_GO:
        return _of(each, "MayBeEvicted", each.note)
    if each.purpose == SAVING and each.note == SAVED:
        return _of(each, "CheckpointVerified", each.note)
    if each.state is TransactionState.ROLLED_BACK:
        reason = "MoveRolledBack" if moves else "ChangeRolledBack"
        return _of(each, reason, f"{_name(each)}rolled back: {why}", warning=not moves)
    if each.state is TransactionState.FAILED:
        what = f"the move to {_nodes(each.after, each)}" if moves else str(each.kind)
        return _of(each, "MoveFailed" if moves else "ChangeFailed", f"{what} failed: {why}", warning=True)
    return _of(each, _SUCCEEDED[each.kind], _outcome(each))


def _beginning(each: Transaction) -> str:
    match each.kind:
        case Kind.MOVE if each.purpose == YIELDING:
            return f"saving on {_nodes(each.before, each)}, to go from there"
        case Kind.MOVE if each.purpose == SAVING:
            return f"saving on {_nodes(each.before, each)}, where somebody else is about to end it"
        case Kind.MOVE:
            subject = f"moving all {format_count(len(each.concerned), 'replica')}" if each.whole else "moving"
            return f"{subject} from {_nodes(each.before, each)} to {_nodes(each.after, each)}"
        case Kind.ADMIT:
            return f"starting on {_nodes(each.after, each)}"
        case Kind.PREEMPT:
            return f"to end, and to wait again{_beneficiary(each)}"
        case Kind.RESTART:
            return f"to end and to start again on {_nodes(each.after, each)}"
        case Kind.PUT_BACK:
            return "to end as a whole, and to wait again"
    return f"from {_workers(each.before)} to {format_count(_workers(each.after), 'worker')}"


def _outcome(each: Transaction) -> str:
    """Return what has succeeded, with what it cost."""
    saved = "" if each.checkpoint is None else f"from the checkpoint of step {each.checkpoint.step}"
    pause = "" if each.downtime is None else f" after {each.downtime:.1f} s of downtime"
    match each.kind:
        case Kind.MOVE | Kind.RESTART:
            step = "" if each.first_step_after is None else f" at step {each.first_step_after}"
            lost = each.steps_lost
            again = (
                f", {format_count(lost, 'step')} trained again"
                if lost
                else ", no step lost" * (each.whole and lost == 0)
            )
            killed = f", {len(each.killed)} had to be killed" if each.killed else ""
            return f"resumed{step} on {_nodes(each.wanted, each)}{pause}{again}{killed}"
        case Kind.ADMIT:
            return f"admitted: runs on {_nodes(each.after, each)}"
        case Kind.PREEMPT:
            ended = f"preempted{_beneficiary(each)}"
            return f"{ended}; it waits again, and resumes {saved or 'from what it saved'}"
        case Kind.PUT_BACK:
            return f"put back; it waits again, and resumes {saved or 'from what it saved'}"
    numbers = f"from {_workers(each.before)} to {format_count(_workers(each.after), 'worker')}"
    return f"{numbers}, on {_nodes(each.after, each)}{saved and f', {saved}'}{pause}"


def _name(each: Transaction) -> str:
    return "" if each.kind is Kind.MOVE else f"{each.kind}: "


def _because(each: Transaction) -> str:
    return f": {each.note}" if each.note else ""


def _beneficiary(each: Transaction) -> str:
    return f" for {each.beneficiary}" if each.beneficiary else ""


def _workers(placement: Mapping[str, str]) -> int:
    return sum(role_of(name) != "ps" for name in placement)


def _nodes(placement: Mapping[str, str], each: Transaction) -> str:
    """Return the nodes with how many replicas each has, those with most first; of one replica its node."""
    if not each.whole:
        return placement.get(each.replica, "")
    counted = Counter(node or "any node" for node in placement.values())
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(node if count == 1 else f"{node} ({count})" for node, count in ordered[:_SHOWN])
    return shown if len(ordered) <= _SHOWN else f"{shown} and {len(ordered) - _SHOWN} more"


def _of(each: Transaction, reason: str, text: str, *, warning: bool = False, topic: str = "") -> Note:
    """Return a note on the replica that moves, or on the job that is changed as a whole."""
    action = "Scale" if each.kind in {Kind.SCALE_IN, Kind.SCALE_OUT} else _action(each.kind)
    return Note(
        replica=each.job if each.whole else each.replica,
        whole=each.whole,
        reason=reason,
        action=action,
        text=text,
        topic=topic or each.id,
        warning=warning,
    )


def _action(kind: Kind) -> str:
    return "".join(part.capitalize() for part in kind.split("-"))
