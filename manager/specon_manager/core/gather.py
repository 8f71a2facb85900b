"""Gangs that are spread over many nodes are brought together where measured paces say that it pays. Pure.

It runs beside every policy, after room was made for what waits (`core/defragment.py`), by the same setting.
Each move is that of a whole gang, one at a time for each kind: what it brought is measured before the next.
See docs/results/ours.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core import dry_run, gate, move_budgets
from specon_manager.core.gather_targets import onto
from specon_manager.core.paces import setup_of
from specon_manager.core.plan import Ruling, objection_to_movers, plan
from specon_manager.core.state import State
from specon_manager.model.actions import DEFRAGMENT, GATHER, MigrateGang, Objection, Refusal
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.paces import ENOUGH, GangPaces, Gathered, Pace, saving
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.standing import resting, to_move_gang

_SEARCHES: Final = 16
"""Gangs for which nodes are looked for in one Tick."""


class Way(Struct, frozen=True, kw_only=True):
    """Two paces of which one is known to be faster."""

    spread: Pace
    """Of a gang as it is set up now."""
    together: Pace
    """As it would be."""
    saved: float
    """Which part of its time it would save at least."""


class Outlook(Struct, frozen=True, kw_only=True):
    """What could be done for one gang that is spread and is known to train faster on fewer nodes."""

    job: str
    way: Way
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
    """Return the gangs that were measured to train faster on fewer nodes than they are on, by name."""
    found = list[str]()
    for known in state.gang_paces.values():
        sure = [pace for pace in known.paces if pace.samples >= ENOUGH]
        if len(sure) > 1:
            slow = {pace.setup for pace in sure if any(_is_better(each, pace) for each in sure)}
            found += [name for name, setup in known.jobs.items() if setup in slow]
    return sorted(found)


def outlook(name: str, state: State, snapshot: Snapshot) -> Outlook | None:
    """Return what could be done for the gang: the best of what it has room for; None: nothing is known."""
    job = snapshot.jobs.get(name)
    if job is None or job.ended_at is not None or job.trains_since is None:
        return None
    known = state.gang_paces.get(job.pace_kind, GangPaces())
    spread = known.of(setup_of(job, snapshot.replicas))
    found = None
    for way in () if spread is None else _ways(known, spread):
        seen = _outlook(job, way, state, snapshot)
        if seen.objection is None:
            return seen
        found = found or seen
    return found


def judged(state: State, snapshot: Snapshot, now: float) -> tuple[State, list[Ruling]]:
    """Return the move that begins now to bring one gang together, judged, and the state that remembers it."""
    state = _reviewed(state)
    if move_budgets.of_cluster(snapshot) is not None or not (names := candidates(state)):
        return state, []
    if any(each.purpose == DEFRAGMENT for each in snapshot.moves) or state.making_room.job in snapshot.claims:
        return state, []  # what is moved next for the job that waits must find room
    looked_at = _next(names, state.gather_after)
    after = "" if len(looked_at) == len(names) else looked_at[-1]
    if after != state.gather_after:
        state = msgspec.structs.replace(state, gather_after=after)
    seen = (outlook(name, state, snapshot) for name in looked_at)
    worth = [each for each in seen if each is not None and each.objection is None]
    if not worth:
        return state, []
    best = max(worth, key=lambda each: each.gain - each.price)  # of equals the first by name
    verdicts = plan(dry_run.of_defragmenting(state), [proposal_of(best)], now, snapshot)
    if any(each.objection is None for each in verdicts):
        began = Gathered(
            setup=best.way.together.setup,
            before=best.way.spread.seconds,
            least=best.least,
            seen=Pace(setup=best.way.together.setup),
        )
        state = msgspec.structs.replace(state, gathered={**state.gathered, best.job: began})
    return state, list(verdicts)


def proposal_of(best: Outlook) -> MigrateGang:
    """Return the move as it is proposed."""
    there, here = best.way.together, best.way.spread
    reason = (
        f"brings it together on {_nodes(there)} rather than {here.setup.nodes}: a step takes"
        f" {there.seconds:.3g} s there and {here.seconds:.3g} s here (measured {there.samples} and"
        f" {here.samples} times), which saves {100 * best.way.saved:.0f} % at least: worth {best.gain:.1f},"
        f" for {best.price:.1f} (weighted replica-seconds)"
    )
    return MigrateGang(job=best.job, placement=best.placement, purpose=GATHER, reason=reason)


def _ways(known: GangPaces, spread: Pace) -> list[Way]:
    """Return what is measured to be quicker on fewer nodes with as many workers, the quickest first."""
    better = [
        Way(spread=spread, together=pace, saved=saving(spread, pace))
        for pace in known.paces
        if _is_better(pace, spread)
    ]
    return sorted(better, key=lambda each: (-each.saved, each.together.setup.nodes))


def _is_better(pace: Pace, spread: Pace) -> bool:
    """Whether it was measured with as many workers on fewer nodes, and is quicker."""
    there, here = pace.setup, spread.setup
    return there.nodes < here.nodes and there.workers == here.workers and saving(spread, pace) > 0


def _outlook(job: Job, way: Way, state: State, snapshot: Snapshot) -> Outlook:
    """Return what this way would bring the gang and cost."""
    settings = state.settings.gate
    names = (*job.spec.worker_names, *job.spec.ps)  # the first worker says how long a step takes
    members = [each for name in names if (each := snapshot.replicas[name]).active]
    price, worth = gate.price(members, settings, state.measured), gate.gain_of_start(members, settings)
    gain, placement = worth * way.saved, dict[str, str]()
    against = (
        _remembered(job, state)
        or to_move_gang(job, snapshot)
        or resting(job, snapshot)
        or objection_to_movers(members, snapshot)
        or gate.objection_to_price(gain, price, settings)
    )
    if against is None:
        against, placement = _placed(job, members, way.together, snapshot)
    if against is None:
        move = MigrateGang(job=job.name, placement=placement, purpose=GATHER, reason="")
        gain = gate.gain_of_gathering(move, way.saved, snapshot, settings)
        against = gate.objection_to_price(gain, price, settings)
    if against is None and gain <= 0:
        against = Objection(Refusal.NO_GAIN, "it would have too few processors there to gain anything")
    return Outlook(
        job=job.name,
        way=way,
        gain=gain,
        price=price,
        least=settings.margin * price / worth if settings.enabled and worth else 0.0,
        placement=placement,
        objection=against,
    )


def _placed(
    job: Job, members: Sequence[Replica], together: Pace, snapshot: Snapshot
) -> tuple[Objection | None, dict[str, str]]:
    """Return where all of it would run, or why it cannot now."""
    nodes = sorted({each.node or "" for each in members})
    if (spent := move_budgets.of_nodes(nodes, snapshot)) is not None:
        return spent, {}
    placement = onto(job, together.setup.nodes, snapshot)
    if placement is None:
        text = f"no {_nodes(together)} together {'has' if together.setup.nodes == 1 else 'have'} room for all"
        return Objection(Refusal.NO_ROOM, f"{text} {len(members)} replicas of it"), {}
    return None, placement


def _remembered(job: Job, state: State) -> Objection | None:
    """Return what was made of bringing it together before, or what another one of its kind tells first."""
    own = state.gathered.get(job.name)
    if own is not None and own.saved is not None and own.saved <= own.least:
        text = (
            f"it was brought together on {_nodes(own.seen)} before, which saved {100 * own.saved:.0f} % of"
            f" its time, and had to save {100 * own.least:.0f} %"
        )
        return Objection(Refusal.NO_GAIN, text)
    for name in _on_trial(state):
        if state.jobs[name].pace_kind == job.pace_kind:
            text = f"{name} of the same kind was brought together, and it is measured first what that brought"
            return Objection(Refusal.COOLDOWN, text)
    return None


def _on_trial(state: State) -> Iterator[str]:
    """Yield the gangs that were brought together and not measured since."""
    return (name for name, each in state.gathered.items() if each.saved is None and name in state.jobs)


def _reviewed(state: State) -> State:
    """Return the state without the gangs that did not come together, or were moved on before they told."""
    gone = {
        name
        for name in _on_trial(state)
        if not state.transactions_of(name)
        and setup_of(state.jobs[name], state.replicas) != state.gathered[name].setup
    }
    if not gone:
        return state
    left = {name: each for name, each in state.gathered.items() if name not in gone}
    return msgspec.structs.replace(state, gathered=left)


def _next(names: Sequence[str], after: str) -> list[str]:
    """Return those to be looked at in this Tick, in turns where there are many."""
    if len(names) <= _SEARCHES:
        return list(names)
    ordered = [*(name for name in names if name > after), *(name for name in names if name <= after)]
    return ordered[:_SEARCHES]


def _nodes(pace: Pace) -> str:
    return f"{pace.setup.nodes} node{'' if pace.setup.nodes == 1 else 's'}"
