"""A pause: the manager orders nothing new until someone ends it. Moves in flight continue to their end.

Moves that began are completed or rolled back, and ends that were ordered are ordered again where they are
due. The manager starts, moves, scales, preempts and reweights nothing: a replica that crashes waits for the
end of the pause, and a move that a person asks for is refused.
"""

from functools import lru_cache

import msgspec

from specon_manager.core.state import Pause, State, Step
from specon_manager.model.actions import Objection, Refusal
from specon_manager.model.events import Paused


def set_pause(state: State, event: Paused, now: float) -> Step:
    """Begin, reword or end the pause; the same word again changes nothing."""
    if event.reason is None:
        return (state if state.pause is None else msgspec.structs.replace(state, pause=None)), []
    if state.pause is not None and state.pause.reason == event.reason:
        return state, []
    since = now if state.pause is None else state.pause.since
    return msgspec.structs.replace(state, pause=Pause(since=since, reason=event.reason)), []


def objection_while_paused(state: State) -> Objection | None:
    """Return what prevents everything new, None where there is no pause."""
    return None if state.pause is None else _objection(state.pause.reason)


@lru_cache(maxsize=16)
def _objection(reason: str) -> Objection:
    return Objection(
        Refusal.PAUSED, f"the manager is paused: {reason}" if reason else "the manager is paused"
    )
