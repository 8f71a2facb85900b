"""Moves that make room for a job that waits although the free room of the cluster together is enough. Pure.

It runs beside every policy, after that has proposed, and only while no move of its own is in flight. The
search is in `policies/defragmentation`; this module decides whether the plan is worth its price, and how many
of its moves begin now. See docs/results/ours.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core import dry_run, gate, scaling
from specon_manager.core.defragment_picture import Scene
from specon_manager.core.gang_assembly import gather_gangs
from specon_manager.core.plan import Ruling, plan
from specon_manager.core.state import MakingRoom, State
from specon_manager.model.actions import (
    DEFRAGMENT,
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Objection,
    Refusal,
)
from specon_manager.model.cluster import Claimed, Job
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.defragmentation.picture import Move, Picture
from specon_manager.policies.defragmentation.search import Plan, find_plan, first_round, rounds
from specon_manager.policies.no_fit_cache import TooLarge
from specon_manager.policies.table import policy_named, settings_of

_SEARCHES: Final = 3
"""Waiting jobs for which moves are looked for in one Tick."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What could be done for one waiting job."""

    job: str
    picture: Picture
    plan: Plan | None
    """None: no moves were found after which it fits. Without moves: it fits already."""
    gain: float
    """What its start is worth, weighted replica-seconds."""
    objection: Objection | None
    """Why nothing is done for it; None where something is."""
    mark: int
    """Differs where something has changed since that counts."""


def outlooks(
    state: State, snapshot: Snapshot, unhelped: Mapping[str, int] | None = None
) -> Iterator[Outlook]:
    """Yield the outlook of each waiting job for which all free room together would do, oldest first.

    `snapshot` is what a policy would decide on. Jobs in `unhelped` are passed over while their mark holds.
    """
    scene, too_large = Scene(snapshot, state), TooLarge()
    for job in _candidates(snapshot):
        if not scene.would_do(job) or (unhelped and unhelped.get(job.name) == scene.mark):
            continue
        picture = scene.picture(job)
        size = job.spec, len(scene.members(job)) - len(job.spec.ps)
        free_to_choose = picture.waiting.allowed is None and job.name not in snapshot.claims
        best = None if free_to_choose and too_large.covers(*size) else find_plan(picture)
        if best is None and free_to_choose:
            too_large.add(*size)
        gain = gate.gain_of_start(scene.members(job), state.settings.gate)
        against = _against(picture, best, gain, state, snapshot)
        yield Outlook(job=job.name, picture=picture, plan=best, gain=gain, objection=against, mark=scene.mark)


def judge_room_making(state: State, snapshot: Snapshot, now: float) -> tuple[State, list[Ruling]]:
    """Return what begins now to make room for one job, judged, and the state that remembers the others.

    `snapshot` is what a policy would decide on once all that is accepted at this moment is under way.
    """
    if any(each.purpose == DEFRAGMENT for each in snapshot.moves):
        return state, []
    waiting = {job.name for job in snapshot.waiting}
    memory = MakingRoom(
        job=state.making_room.job if state.making_room.job in waiting else "",
        unhelped={name: mark for name, mark in state.making_room.unhelped.items() if name in waiting},
    )
    rulings = list[Ruling]()
    judging = dry_run.withhold_defragmenting(state)
    for outlook in islice(outlooks(state, snapshot, memory.unhelped), _SEARCHES):
        against = outlook.objection
        if against is None:
            moves = _list_begun(outlook, state, snapshot)
            if not moves:
                break  # others are in flight, and it has to wait for them
            verdicts = plan(judging, [*moves, *_claims(outlook, snapshot)], now, snapshot)
            against = next((each.objection for each in verdicts if each.objection is not None), None)
            rulings += verdicts if against is None else _all_refused(verdicts, against)
            if against is None:
                memory = msgspec.structs.replace(memory, job=outlook.job)
                break
        elif outlook.plan is None or outlook.plan.moves:
            claim = Claim(job=outlook.job, placement={}, reason="room is made for it")
            rulings.append(Ruling(proposal=claim, objection=against))
        memory = MakingRoom(
            job="" if memory.job == outlook.job else memory.job,
            unhelped={**memory.unhelped, outlook.job: outlook.mark},
        )
        if state.making_room.job == outlook.job and outlook.job in snapshot.claims:
            given_up = Claim(job=outlook.job, placement={}, reason=f"nothing more is done: {against.text}")
            rulings += plan(state, [given_up], now, snapshot)
        if against.refusal is Refusal.DRY_RUN:
            break
    if memory != state.making_room:
        state = msgspec.structs.replace(state, making_room=memory)
    return state, rulings


def proposal_of(move: Move, outlook: Outlook) -> Migrate | MigrateGang:
    """Return a move of a plan as it is proposed."""
    assert outlook.plan is not None
    count, unit, nodes = len(outlook.plan.moves), move.unit, outlook.picture.nodes
    reason = (
        f"makes room for {outlook.job}: {count} move{'' if count == 1 else 's'} for"
        f" {outlook.plan.price:.1f}, its start is worth {outlook.gain:.1f} (weighted replica-seconds)"
    )
    if not unit.gang:
        return Migrate(
            replica=unit.name,
            target=nodes[move.targets[0]],
            purpose=DEFRAGMENT,
            reason=reason,
            beneficiary=outlook.job,
        )
    placement = {replica: nodes[node] for replica, node in move.placement.items()}
    return MigrateGang(
        job=unit.name, placement=placement, purpose=DEFRAGMENT, reason=reason, beneficiary=outlook.job
    )


def _candidates(snapshot: Snapshot) -> list[Job]:
    """Return the waiting jobs that are ours to start, oldest first; the one that starves, where one does."""
    waiting = [job for job in snapshot.waiting if scaling.not_ours(job, snapshot) is None]
    if snapshot.firm is not None:
        waiting = [job for job in waiting if job.name == snapshot.firm]
    return sorted(waiting, key=lambda job: (job.queued_at, job.order, job.name))


def _against(
    picture: Picture, best: Plan | None, gain: float, state: State, snapshot: Snapshot
) -> Objection | None:
    """Return why nothing is done for the job."""
    if best is None:
        return Objection(Refusal.NO_ROOM, "no moves were found after which it would have room")
    if not best.moves:
        return Objection(Refusal.NO_GAIN, "it has room without any move")
    if (against := gate.objection_to_price(gain, best.price, state.settings.gate)) is not None:
        return against
    budgets = state.settings.budgets
    if not rounds(picture, best, most=budgets.moves_at_once, per_node=budgets.moves_at_once_per_node):
        return Objection(Refusal.CLUSTER_BUDGET, "the budgets allow none of its moves at any time")
    if snapshot.firm != picture.waiting.job and not _would_start(picture, best, state, snapshot):
        text = f"the policy {state.settings.policy} would not start it even then"
        return Objection(Refusal.NO_GAIN, text)
    return None


def _would_start(picture: Picture, best: Plan, state: State, snapshot: Snapshot) -> bool:
    """Whether the policy that is set would start the job if all moves of the plan had ended."""
    job, settings = picture.waiting.job, state.settings
    moved = [
        msgspec.structs.replace(snapshot.replicas[replica], node=picture.nodes[node])
        for move in best.moves
        for replica, node in move.placement.items()
    ]
    claim = Claimed(placement=tuple(best.placement.items()), until=snapshot.now + 1.0, reason="")
    later = snapshot.with_records(moved).with_claim(job, claim)
    policy = policy_named(settings.policy)
    proposals = gather_gangs(policy.propose(later, settings_of(policy, settings.parameters)), later)
    return any(
        (isinstance(each, AdmitGang) and each.job == job)
        or (isinstance(each, Admit) and snapshot.replicas[each.replica].job == job)
        for each in proposals
    )


def _list_begun(outlook: Outlook, state: State, snapshot: Snapshot) -> list[Migrate | MigrateGang]:
    """Return the moves of the plan that can begin beside the transactions in flight."""
    assert outlook.plan is not None
    budgets = state.settings.budgets
    begun = first_round(
        outlook.picture,
        outlook.plan.moves,
        most=budgets.moves_at_once - len(snapshot.moves),
        per_node=budgets.moves_at_once_per_node,
        busy=snapshot.busy,
    )
    return [proposal_of(move, outlook) for move in begun]


def _claims(outlook: Outlook, snapshot: Snapshot) -> Iterator[Claim]:
    """Yield the claim that keeps the room for the job, unless it has that already."""
    assert outlook.plan is not None
    known = snapshot.claims.get(outlook.job)
    if known is not None and (known.firm or dict(known.placement) == dict(outlook.plan.placement)):
        return
    count = len(outlook.plan.moves)
    reason = f"room is made for it by {count} move{'' if count == 1 else 's'}"
    yield Claim(job=outlook.job, placement=outlook.plan.placement, reason=reason)


def _all_refused(verdicts: Iterable[Ruling], against: Objection) -> Iterator[Ruling]:
    """Refuse all of what only makes sense together."""
    for each in verdicts:
        if each.objection is not None:
            yield each
        else:
            together = Objection(against.refusal, f"it goes with another: {against.text}")
            yield Ruling(proposal=each.proposal, objection=together)
