"""Moves within the state: what happens to one, what it orders then, and how it ends."""

import msgspec

from specon_manager.core.migration import advance, closing_orders, may_evict, orders
from specon_manager.core.restarts import crashed, eviction, started_anywhere
from specon_manager.core.state import HISTORY, Measured, State
from specon_manager.model.actions import Action, ReleaseRoom
from specon_manager.model.cluster import Phase, Replica
from specon_manager.model.moves import ASKING_STATES, FINAL_STATES, Move, MoveOutcome, MoveState
from specon_sidecar.wire import Acknowledgement, Checkpoint, Report


def current_orders(state: State, move: Move) -> list[Action]:
    """Return what the present state of the move orders; the same again after a restart of the manager."""
    replica = state.replicas[move.replica]
    return orders(move, replica, state.jobs[replica.job])


def happened(
    state: State, move: Move, outcome: MoveOutcome, now: float, *, note: str = ""
) -> tuple[State, list[Action]]:
    """Return the state after `outcome` befell the move, and what is ordered then."""
    replica = state.replicas[move.replica]
    job = state.jobs[replica.job]
    grace = job.spec.grace_seconds
    advanced = advance(move, outcome, now, state.settings.deadlines, grace=grace, note=note)
    if advanced is None:
        return state, []
    if advanced.state is MoveState.EVICTING and move.state is MoveState.RESTORING:
        advanced = msgspec.structs.replace(advanced, incarnation=None)  # whichever it may have started
    if advanced.state in FINAL_STATES:
        actions = closing_orders(move, advanced)
        if (move.state, outcome) == (MoveState.RESTORING, MoveOutcome.OVERDUE) and not job.owned:
            actions.append(eviction(state, replica, None, f"move {move.id}: {advanced.note}"))
        state = _end(state, advanced, now)
        if job.owned and _is_nowhere(replica, advanced, outcome):
            # What was suspended or deleted for the move must come back.
            why = f"move {move.id} failed: {advanced.note}"
            state, ordered = started_anywhere(state, state.replicas[replica.name], why, now)
            actions += ordered
        return state, actions
    if advanced.state is MoveState.RESTORING:
        state, advanced = _prepare_restore(state, replica, move, advanced)
    actions = closing_orders(move, advanced)
    state = state.with_move(advanced)
    # A wait that only got a new name orders nothing that was not ordered already.
    if (move.state, advanced.state) == (MoveState.RESERVED, MoveState.CHECKPOINTING):
        return state, actions
    return state, actions + current_orders(state, advanced)


def _is_nowhere(replica: Replica, move: Move, outcome: MoveOutcome) -> bool:
    """Whether the move ended so that nothing of the replica is left; `replica` is its record before that."""
    if move.state is not MoveState.FAILED:
        return False
    return replica.phase is Phase.STARTING or outcome is MoveOutcome.GONE


def landed(state: State, move: Move, node: str) -> tuple[State, list[Action]]:
    """Take note that the scheduler of its owner put the new incarnation on another node than it was to go to.

    That becomes the target: where it trains, the move has come to. On the way back only the note says so.
    """
    if node == move.destination or move.state is not MoveState.VERIFYING:
        return state, []
    note = f"its scheduler put it on {node}"
    if move.attempt > 1:
        return state.with_move(msgspec.structs.replace(move, note=note)), []
    release = ReleaseRoom(
        move=move.id, replica=move.replica, node=move.target, reason=f"move {move.id}: {note}"
    )
    return state.with_move(msgspec.structs.replace(move, target=node, note=note)), [release]


def answered(state: State, move: Move, answer: Acknowledgement, now: float) -> tuple[State, list[Action]]:
    """Take the sidecar's answer to the request for a checkpoint; in other states none is waited for."""
    if move.state not in ASKING_STATES:
        return state, []
    if not answer.done:
        return happened(state, move, MoveOutcome.CHECKPOINT_REFUSED, now, note=answer.reason or "refused")
    spec = state.jobs[state.replicas[move.replica].job].spec
    if answer.checkpoint is None and spec.checkpointing == "on-termination":
        return happened(state, move, MoveOutcome.CHECKPOINT_VERIFIED, now)  # verified before the restore
    if not may_evict(move, answer.checkpoint):
        why = "the sidecar named no verified checkpoint"
        return happened(state, move, MoveOutcome.CHECKPOINT_REFUSED, now, note=why)
    state = state.with_move(msgspec.structs.replace(move, checkpoint=answer.checkpoint))
    return happened(state, state.moves[move.replica], MoveOutcome.CHECKPOINT_VERIFIED, now)


def resumed(move: Move, report: Report) -> bool:
    """Whether the report of the new incarnation shows a step after the checkpoint's.

    Its own step counts: what is known of the replica may still come from the old incarnation.
    """
    if move.state is not MoveState.VERIFYING or move.first_step_after is None:
        return False
    step = None if report.last is None else report.last.step
    # Without a checkpoint it is back on its source, with whatever older state was there: any step will do.
    return step is not None and (move.checkpoint is None or step > move.checkpoint.step)


def renew(state: State, move: Move, now: float) -> Move:
    """Return the move with its deadline set anew, for a manager that was away while it passed."""
    deadlines = state.settings.deadlines
    grace = state.jobs[state.replicas[move.replica].job].spec.grace_seconds
    patience = {
        MoveState.PROPOSED: deadlines.hold,
        MoveState.RESERVED: deadlines.checkpoint,
        MoveState.CHECKPOINTING: deadlines.checkpoint,
        MoveState.EVICTING: grace + deadlines.eviction_margin,
        MoveState.RESTORING: deadlines.start,
        MoveState.VERIFYING: deadlines.verify,
    }
    return msgspec.structs.replace(move, deadline=max(move.deadline, now + patience[move.state]))


def _prepare_restore(state: State, replica: Replica, before: Move, move: Move) -> tuple[State, Move]:
    """Count a new start, and note on the first one where the old incarnation had come to."""
    progress = replica.progress
    if before.state is MoveState.EVICTING and before.attempt == 1:
        final = (
            progress.checkpoint if progress.checkpoint is not None and progress.checkpoint.verified else None
        )
        checkpoint = move.checkpoint or final
        if checkpoint is None:
            # Told to save when it ended, it did not. The source has whatever older state there is.
            move = msgspec.structs.replace(move, attempt=2, note="no verified checkpoint after the end")
        move = msgspec.structs.replace(
            move,
            checkpoint=checkpoint,
            resumed_from=_latest(checkpoint, final),
            last_step_before=progress.step,
            last_step_at=progress.step_at,
        )
    move = msgspec.structs.replace(move, incarnation=None, first_step_after=None, downtime=None)
    starting = msgspec.structs.replace(
        replica,
        phase=Phase.STARTING,
        node=move.destination,
        incarnation=None,
        starts=replica.starts + 1,
        weight=1.0,  # of the new incarnation
    )
    return state.with_replica(starting), move


def _latest(*checkpoints: Checkpoint | None) -> int | None:
    return max((checkpoint.step for checkpoint in checkpoints if checkpoint is not None), default=None)


def _end(state: State, move: Move, now: float) -> State:
    """Close the move: into the history, its cost into what moves cost, its replica on with its life."""
    move = msgspec.structs.replace(move, steps_lost=_steps_lost(move))
    remaining = {name: other for name, other in state.moves.items() if name != move.replica}
    state = msgspec.structs.replace(
        state,
        moves=remaining,
        history=(*state.history, move)[-HISTORY:],
        measured=_measured(state.measured, move),
    )
    replica = state.replicas[move.replica]
    budgets = state.settings.budgets
    if move.state is MoveState.SUCCEEDED:
        replica = msgspec.structs.replace(
            replica,
            moves=replica.moves + 1,
            attempts=0,
            moved_for=(*replica.moved_for, move.purpose),
            cooldown_until=now + budgets.cooldown,
        )
    else:
        pause = budgets.retry_cooldown * 2 ** min(replica.attempts, 10)
        replica = msgspec.structs.replace(
            replica, attempts=replica.attempts + 1, cooldown_until=now + pause, note=f"{move.id}: {move.note}"
        )
    state = state.with_replica(replica)
    owned = state.jobs[replica.job].owned
    if move.state is MoveState.FAILED and replica.phase is Phase.STARTING and not owned:
        # Neither node could restore it. From here on it is an ordinary crash, so that the job is not lost.
        return crashed(state, replica, f"{move.id}: {move.note}", now)
    return state


def _steps_lost(move: Move) -> int | None:
    """Return how many steps had to be trained again, or None where nothing was trained since."""
    if move.first_step_after is None or move.last_step_before is None:
        return None
    resumed_from = move.first_step_after - 1
    if move.resumed_from is not None:
        resumed_from = min(resumed_from, move.resumed_from)
    return max(0, move.last_step_before - resumed_from)


def _measured(measured: Measured, move: Move) -> Measured:
    """Return the running means, the latest move weighing at least a fifth."""
    if move.downtime is None or move.steps_lost is None:
        return measured
    share = max(1 / (measured.moves + 1), 0.2)
    return Measured(
        moves=measured.moves + 1,
        downtime=measured.downtime + share * (move.downtime - measured.downtime),
        steps_lost=measured.steps_lost + share * (move.steps_lost - measured.steps_lost),
    )
