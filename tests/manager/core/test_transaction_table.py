"""The table of states: what it promises for every kind of transaction."""

import pytest

from specon_manager.core.transaction.table import (
    SKIPPED,
    TRANSITIONS,
    TURNS,
    Outcome,
    first_state,
    following,
    patience,
)
from specon_manager.model.settings import Deadlines
from specon_manager.model.transactions import FINAL_STATES, UNTOUCHED_STATES, Kind, TransactionState

OPEN = [state for state in TransactionState if state not in FINAL_STATES]


def reached(kind):
    """Return every (state, attempt) that a transaction of this kind may come to."""
    found, ahead = set(), [(first_state(kind), 1)]
    while ahead:
        state, attempt = ahead.pop()
        if (state, attempt) in found:
            continue
        found.add((state, attempt))
        after = (following(kind, attempt, state, outcome) for outcome in Outcome)
        ahead += [each for each in after if each is not None]
    return found


def test_nothing_happens_to_what_has_ended():
    """No transition leaves a final state, and every outcome means something somewhere."""
    assert not {origin for origin, _ in TRANSITIONS} & FINAL_STATES
    assert {outcome for _, outcome in TRANSITIONS} == set(Outcome)
    assert not TURNS - TRANSITIONS.keys()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_comes_to_an_end_from_wherever_it_is(kind):
    """Each state has a deadline, and no chain of outcomes turns back twice."""
    for state, attempt in reached(kind) - {(end, n) for end in FINAL_STATES for n in (1, 2)}:
        assert patience(kind, state, Deadlines(), grace=30.0, alone=True) > 0
        ends = {following(kind, attempt, state, outcome) for outcome in Outcome} - {None}
        assert any(after in FINAL_STATES or number > attempt for after, number in ends), (state, attempt)
        assert all(number >= attempt for _, number in ends)


@pytest.mark.parametrize("kind", Kind)
def test_only_verified_checkpoints_lead_to_an_end(kind):
    """Nothing is told to end out of a state in which checkpoints are asked for but when all are verified.

    Or when what was told before turns out to be gone, and has nowhere to go: it comes back then.
    """
    for state in UNTOUCHED_STATES & {state for state, attempt in reached(kind) if attempt == 1}:
        for outcome in Outcome:
            after = following(kind, 1, state, outcome)
            if after == (TransactionState.LEAVING, 1):
                assert outcome is Outcome.SAVED
            if after == (TransactionState.LEAVING, 2):
                assert (state, outcome) == (TransactionState.CHECKPOINTING, Outcome.LOST)


@pytest.mark.parametrize("kind", Kind)
def test_what_it_does_not_need_a_kind_never_comes_to(kind):
    """On the way there; on the way back each starts and proves what ran before."""
    visited = {state for state, attempt in reached(kind) if attempt == 1}
    assert not visited & SKIPPED[kind]
    assert TransactionState.SUCCEEDED in visited


@pytest.mark.parametrize("kind", Kind)
def test_a_way_back_is_no_success(kind):
    """It ends as rolled back where all that ran before runs again, and as failed where not."""
    back = [(state, attempt) for state, attempt in reached(kind) if attempt > 1]
    assert back or kind in {Kind.PREEMPT, Kind.PUT_BACK}
    assert (TransactionState.SUCCEEDED, 2) not in back


@pytest.mark.parametrize("state", OPEN)
def test_a_job_that_is_over_or_wants_something_else_ends_it_wherever_it_is(state):
    """No state outlives the job, and none holds against its owner."""
    assert TRANSITIONS[state, Outcome.GIVEN_UP] is TransactionState.ROLLED_BACK
    succeeded = state is TransactionState.VERIFYING
    wanted = TransactionState.SUCCEEDED if succeeded else TransactionState.ROLLED_BACK
    assert TRANSITIONS[state, Outcome.FINISHED] is wanted
