"""What a checkpoint promises of the steps after a resume, and whether the observed steps keep it."""

from typing import Final

from specon_manager.model.transactions import Witness

_APART: Final = 100
"""Steps by which a checkpoint's and its log's may differ and count the same: it trains while it saves."""
_GAPS_AHEAD: Final = 4
"""Times as far as its log's steps are apart may a job have come unseen, from its last report to its end."""
_LEAST_AHEAD: Final = 200
"""So many steps may be missing at the beginning of a log all the same: one that is rotated loses lines."""


def promised_step(witness: Witness) -> int | None:
    """Return the step after which it has to continue, as its log counts; None where nothing is promised.

    A checkpoint that was made after it was asked for holds what its log named then. Where its own step is
    far from that, the two do not count the same (epochs and steps), and the log's is compared.
    """
    saved, asked = witness.checkpoint, witness.asked_step
    if saved is None:
        return None
    if asked is None or not witness.asked_for or abs(saved.step - asked) <= max(_APART, asked // 2):
        return saved.step
    return asked


def _never_trained(name: str, witness: Witness, floor: int | None) -> str | None:
    """Return that a witness is at a step that nobody of its job can have trained, in words; None: it may be.

    Two jobs that save into one folder take each other's checkpoints for their own.
    """
    first, saved, gap = witness.first_step, witness.checkpoint, witness.step_gap
    if first is None or saved is None or gap is None or witness.last_step is None:
        return None
    reached = max(witness.last_step, saved.step, floor or 0)
    if first <= reached + max(_LEAST_AHEAD, _GAPS_AHEAD * gap):
        return None
    told = f"{name} is at step {first}, and came to step {reached}"
    return f"{told}: it went on from a checkpoint that is not its own"


def not_resumed(name: str, witness: Witness) -> str | None:
    """Return why what a witness shows is no resume from its checkpoint, in words; None: it may be one.

    Whatever its checkpoint is said to hold: a job that has lost steps and is where it once started, or at
    step 0, started from the beginning.
    """
    first, saved, last = witness.first_step, witness.checkpoint, witness.last_step
    if first is None:
        return None
    began = 1 if witness.began_step is None else witness.began_step
    if first == 0 or (first <= began and (last is None or first < last)):
        what = "" if saved is None else f", and its checkpoint at step {saved.step}"
        return f"{name} is at step {first}{what}: it started from the beginning"
    floor = promised_step(witness)
    if (beyond := _never_trained(name, witness, floor)) is not None:
        return beyond
    if saved is None or floor is None or first >= floor:
        return None
    if saved.told:
        # Its log may begin with its last line; and some name the step that is done, some that comes next.
        least = floor - 1 if last is None else min(floor - 1, last)
    elif witness.step_gap is None:
        return None  # what its step is said to be is what the log said then, which may not name each
    else:
        least = floor - witness.step_gap
    if first >= least:
        return None
    where = f"step {saved.step}" if floor == saved.step else f"{saved.step}, made after step {floor}"
    return f"{name} is at step {first}, and its checkpoint at step {where}: it went on from an older state"
