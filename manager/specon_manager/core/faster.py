"""Jobs move to a setup in which they train faster, where measured paces say that it pays. Pure.

A gang that is spread is brought together on fewer nodes; any job leaves accelerators on which it is slow for
others. It runs beside every policy, after room was made for what waits (`core/defragment.py`), by the same
setting. Each move is that of a whole job, one at a time for each kind: what it brought is measured before the
next. See docs/results/ours.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core import dry_run, gate, move_budgets
from specon_manager.core.move_objections import objection_to_movers
from specon_manager.core.paces import setup_of
from specon_manager.core.plan import Ruling, plan
from specon_manager.core.setup_targets import onto
from specon_manager.core.state import State
from specon_manager.model.actions import DEFRAGMENT, FASTER, Migrate, MigrateGang, Objection, Refusal
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.paces import ENOUGH, KindPaces, Pace, Tried, saving
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import gang_move_objection, move_objection, resting, trains_as_one
from specon_sidecar.counts import format_count

_SEARCHES: Final = 16
"""Jobs for which nodes are looked for in one Tick."""


class Speedup(Struct, frozen=True, kw_only=True):
    """Two paces; one is known to be faster."""

    now: Pace
    """Of a job as it is set up now."""
    then: Pace
    """As it would be."""
    saved: float
    """Which part of its time it would save at least."""


class SetupChange(Struct, frozen=True, kw_only=True):
    """What could be done for one job that is known to train faster in another setup."""

    job: str
    way: Speedup
    gain: float
    """What that is worth within the gate's horizon, weighted replica-seconds."""
    price: float
    """Of the move, weighted replica-seconds."""
    least: float
    """Which part of its time it has to save so that it is worth the price."""
    placement: Mapping[str, str]
    """Node by replica; empty where no such nodes were looked for, or found."""
    objection: Objection | None
    """Why nothing is done for it; None where something is."""


def candidates(state: State) -> list[str]:
    """Return the jobs that were measured to train faster in another setup than theirs, by name."""
    found = list[str]()
    for known in state.setup_paces.values():
        sure = [pace for pace in known.paces if pace.samples >= ENOUGH]
        now = {*known.jobs.values()}
        if len(sure) > 1 and now:
            here = (pace for pace in sure if pace.setup in now)
            slow = {pace.setup for pace in here if any(_is_better(each, pace) for each in sure)}
            found += [name for name, setup in known.jobs.items() if setup in slow]
    return sorted(found)


def outlook(name: str, state: State, snapshot: Snapshot) -> SetupChange | None:
    """Return what could be done for the job: the best of what it has room for; None: nothing is known."""
    job = snapshot.jobs.get(name)
    if job is None or job.ended_at is not None or job.trains_since is None:
        return None
    known = state.setup_paces.get(job.pace_kind, KindPaces())
    now = known.of(setup_of(job, snapshot.replicas, snapshot.nodes))
    found = None
    for way in () if now is None else _ways(known, now):
        seen = _outlook(job, way, state, snapshot)
        if seen.objection is None:
            return seen
        found = found or seen
    return found


def judge_faster_move(state: State, snapshot: Snapshot, now: float) -> tuple[State, list[Ruling]]:
    """Return the move that begins now to a faster setup, judged, and the state that remembers it."""
    state = _review(state)
    if move_budgets.cluster_objection(snapshot) is not None or not (names := candidates(state)):
        return state, []
    if any(each.purpose == DEFRAGMENT for each in snapshot.moves) or state.making_room.job in snapshot.claims:
        return state, []  # the next move for the job that waits must find room
    looked_at = _next(names, state.faster_after)
    after = "" if len(looked_at) == len(names) else looked_at[-1]
    if after != state.faster_after:
        state = msgspec.structs.replace(state, faster_after=after)
    seen = (outlook(name, state, snapshot) for name in looked_at)
    worth = [each for each in seen if each is not None and each.objection is None]
    if not worth:
        return state, []
    best = max(worth, key=lambda each: each.gain - each.price)  # of equals the first by name
    verdicts = plan(dry_run.withhold_defragmenting(state), [proposal_of(best, snapshot)], now, snapshot)
    if any(each.objection is None for each in verdicts):
        began = Tried(
            setup=best.way.then.setup,
            before=best.way.now.seconds,
            least=best.least,
            seen=Pace(setup=best.way.then.setup),
        )
        state = msgspec.structs.replace(state, tried={**state.tried, best.job: began})
    return state, list(verdicts)


def proposal_of(best: SetupChange, snapshot: Snapshot) -> Migrate | MigrateGang:
    """Return the move as it is proposed: of the whole job where that trains as one."""
    there, here = best.way.then, best.way.now
    reason = (
        f"trains faster on {there.setup} than on {here.setup}: a step takes"
        f" {there.seconds:.3g} s there and {here.seconds:.3g} s here (measured {there.samples} and"
        f" {format_count(here.samples, 'time')}), which saves {100 * best.way.saved:.0f} %"
        f" at least: worth {best.gain:.1f},"
        f" for {best.price:.1f} (weighted replica-seconds)"
    )
    return _move(snapshot.jobs[best.job], best.placement, snapshot, reason)


def _move(job: Job, placement: Mapping[str, str], snapshot: Snapshot, reason: str) -> Migrate | MigrateGang:
    if trains_as_one(job, snapshot):
        return MigrateGang(job=job.name, placement=placement, purpose=FASTER, reason=reason)
    ((replica, target),) = placement.items()
    return Migrate(replica=replica, target=target, purpose=FASTER, reason=reason)


def _ways(known: KindPaces, now: Pace) -> list[Speedup]:
    """Return the setups that are measured to be quicker, the quickest first."""
    better = [
        Speedup(now=now, then=pace, saved=saving(now, pace)) for pace in known.paces if _is_better(pace, now)
    ]
    return sorted(better, key=lambda each: (-each.saved, each.then.setup.nodes))


def _is_better(pace: Pace, now: Pace) -> bool:
    """Whether it was measured in a setup that may be compared with that of now, and is quicker."""
    return pace.setup.may_beat(now.setup) and saving(now, pace) > 0


def _outlook(job: Job, way: Speedup, state: State, snapshot: Snapshot) -> SetupChange:
    """Return what this way would bring the job and cost."""
    settings = state.settings.gate
    names = (*job.spec.worker_names, *job.spec.ps)  # the first worker says how long a step takes
    members = [each for name in names if (each := snapshot.replicas[name]).active]
    price, worth = gate.price(members, settings, state.measured), gate.gain_of_start(members, settings)
    gain, placement = worth * way.saved, dict[str, str]()
    against = (
        _recall(job, state)
        or _objection_to_leaving(job, members, snapshot)
        or objection_to_movers(members, snapshot)
        or gate.objection_to_price(gain, price, settings)
    )
    if against is None:
        against, placement = _find_room(job, members, way.then, snapshot)
    if against is None:
        move = _move(job, placement, snapshot, "")
        gain = gate.gain_of_setup(move, way.saved, snapshot, settings)
        against = gate.objection_to_price(gain, price, settings)
    if against is None and gain <= 0:
        against = Objection(Refusal.NO_GAIN, "it would have too few processors there to gain anything")
    return SetupChange(
        job=job.name,
        way=way,
        gain=gain,
        price=price,
        least=settings.margin * price / worth if settings.enabled and worth else 0.0,
        placement=placement,
        objection=against,
    )


def _objection_to_leaving(job: Job, members: Sequence[Replica], snapshot: Snapshot) -> Objection | None:
    """Return what rules any move of the job out: one of several replicas that train as one is all of it."""
    if trains_as_one(job, snapshot):
        return gang_move_objection(job, snapshot) or resting(job, snapshot)
    return move_objection(members[0], snapshot) or resting(job, snapshot)


def _find_room(
    job: Job, members: Sequence[Replica], then: Pace, snapshot: Snapshot
) -> tuple[Objection | None, dict[str, str]]:
    """Return where all of it would run, or why it cannot now."""
    nodes = sorted({each.node or "" for each in members})
    if (spent := move_budgets.nodes_objection(nodes, snapshot)) is not None:
        return spent, {}
    placement = onto(job, then.setup, snapshot)
    if placement is None:
        together = " together" if then.setup.nodes > 1 else ""
        what = "it" if len(members) == 1 else f"all {len(members)} replicas of it"
        return Objection(Refusal.NO_ROOM, f"there is no room for {what} on {then.setup}{together}"), {}
    return None, placement


def _recall(job: Job, state: State) -> Objection | None:
    """Return what came of such a move of it before, or what another one of its kind is to tell first."""
    own = state.tried.get(job.name)
    if own is not None and own.saved is not None and own.saved <= own.least:
        text = (
            f"it was moved to {own.setup} before, which saved {100 * own.saved:.0f} % of its time, and had to"
            f" save {100 * own.least:.0f} %"
        )
        return Objection(Refusal.NO_GAIN, text)
    for name in _on_trial(state):
        if state.jobs[name].pace_kind == job.pace_kind:
            text = f"{name} of the same kind was moved for this: its gain is measured first"
            return Objection(Refusal.COOLDOWN, text)
    return None


def _on_trial(state: State) -> Iterator[str]:
    """Yield the jobs that were moved to a faster setup and not measured since."""
    return (name for name, each in state.tried.items() if each.saved is None and name in state.jobs)


def _review(state: State) -> State:
    """Return the state without the jobs that did not get there, or were moved on before they told."""
    gone = {
        name
        for name in _on_trial(state)
        if not state.transactions_of(name)
        and setup_of(state.jobs[name], state.replicas, state.nodes) != state.tried[name].setup
    }
    if not gone:
        return state
    left = {name: each for name, each in state.tried.items() if name not in gone}
    return msgspec.structs.replace(state, tried=left)


def _next(names: Sequence[str], after: str) -> list[str]:
    """Return those to be looked at in this Tick, in turns where there are many."""
    if len(names) <= _SEARCHES:
        return list(names)
    ordered = [*(name for name in names if name > after), *(name for name in names if name <= after)]
    return ordered[:_SEARCHES]
