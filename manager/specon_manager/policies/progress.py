"""specon's own policy: least expected work first, in place where it can be, with no harm where it cannot.

It combines what was found best by measuring (`docs/algorithms/progress.md`): shortest remaining processing
time on what sidecars learn (SRPT; the estimates are those of `expectation`), demand counted by its size, as
batch work is scheduled by area; weights in place before any move (SLAQ's shares by gain); FitGpp's choice of
a victim for trials; elastic gangs that begin small while others wait, and grow where they are.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta

from specon_manager.model.actions import AdmitGang, Proposal
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.crowding import reserves
from specon_manager.policies.elasticity import resize
from specon_manager.policies.expectation import Expectation
from specon_manager.policies.fitgpp import FitGppSettings, FittingGracePeriod
from specon_manager.policies.packing import grow, place_tightly
from specon_manager.policies.preemption.admission import restart
from specon_manager.policies.preemption.queues import Queues, Waiting
from specon_manager.policies.preemption.rooms import Amounts, Rooms, amounts_of, rooms_of, within
from specon_manager.policies.preemption.trials import PreemptionSettings, Trials
from specon_manager.policies.shares import Shares

Seconds = Annotated[float, Meta(gt=0, le=1e9)]


class ProgressSettings(PreemptionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set of specon's own policy."""

    prior_seconds: Seconds = 600.0
    """How long a job is taken to train before anything was learnt of any, seconds."""
    patience: Seconds = 3600.0
    """After so long a wait a job is served before all that wait shorter, seconds."""
    probe_seconds: Seconds = 30.0
    """How long a job that shares processors is served first, so that its sidecar learns what is left."""
    low_weight: Annotated[float, Meta(gt=0, le=1)] = 0.02
    """Weight of those that share a node and are not first; 1: all get the same."""
    margin: Annotated[float, Meta(ge=0, lt=1)] = 0.2
    """By how much less another must have left before it takes the turn: estimates err."""
    move_seconds: Seconds = 10.0
    """What a job must wait at least where it is before it is moved to an idle node, seconds."""
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 60.0
    """What a change of the number of workers is taken to cost, seconds; growing must gain twice as much."""
    shrink_ratio: Annotated[float, Meta(ge=0, le=1e6)] = 0.5
    """A job gives up workers for one that waits and has at most this part of its own time left; 0: never."""
    grace_weight: Annotated[float, Meta(ge=0, le=1e6)] = 4.0
    """s of FitGpp's equation (3), for the choice of a victim."""


def propose(snapshot: Snapshot, settings: ProgressSettings) -> Iterator[Proposal]:
    """Propose everything that should happen now."""
    if not snapshot.ready_nodes:
        return
    expected = Expectation(snapshot, prior_seconds=settings.prior_seconds)
    queues, rooms = Queues(snapshot), rooms_of(snapshot, settings.node_choice)
    yield from restart(snapshot, queues, rooms)
    ranked = sorted(
        (*queues.trials(), *queues.best_effort()),
        key=lambda waiting: _rank(waiting.job, snapshot, expected, settings),
    )
    yield from _in_shares(ranked, snapshot, expected, settings)
    choice = FitGppSettings(
        max_preemptions=settings.max_preemptions,
        node_choice=settings.node_choice,
        grace_weight=settings.grace_weight,
    )
    trials = Trials(
        snapshot, queues, rooms, lambda running: FittingGracePeriod(running, choice, snapshot.now)
    )
    admitted: list[AdmitGang] = []
    for waiting in ranked:
        if waiting.job.spec.job_class == "trial" and reserves(waiting.job.spec):
            for proposal in trials.serve(waiting):
                if isinstance(proposal, AdmitGang):
                    admitted.append(proposal)
                yield proposal
    started, stranded = _start(ranked, snapshot, rooms)
    yield from started
    yield from resize(
        snapshot,
        expected,
        (*admitted, *started),
        stranded,
        resize_seconds=settings.resize_seconds,
        shrink_ratio=settings.shrink_ratio,
    )


def _rank(
    job: Job, snapshot: Snapshot, expected: Expectation, settings: ProgressSettings
) -> tuple[bool, float, int]:
    """Order the queue: who has waited too long, by age; then by expected work, time by size of the demand."""
    if snapshot.now - job.queued_at > settings.patience:
        return False, 0.0, job.order
    return True, expected.remaining(job) * _size(job, snapshot), job.order


def _size(job: Job, snapshot: Snapshot) -> float:
    """Return the largest share of a node that the smallest form of the job asks for; 1 where it asks nothing.

    Shares of the first node: it is a matter of scale only.
    """
    spec = job.spec
    if not reserves(spec):
        return 1.0
    whole = amounts_of(snapshot.ready_nodes[0].capacity)
    asked = amounts_of(spec.requests)
    share = max((a / w for a, w in zip(asked, whole, strict=True) if w > 0), default=1.0)
    return max(share, 1e-6) * spec.fewest_workers


def _in_shares(
    ranked: Iterable[Waiting], snapshot: Snapshot, expected: Expectation, settings: ProgressSettings
) -> Iterator[Proposal]:
    """Serve the jobs that share processors: start all, let the shortest of each node go first, fill nodes."""
    shares = Shares(snapshot, expected, settings)
    for waiting in ranked:
        if not reserves(waiting.job.spec):
            yield shares.admit(waiting)
    if snapshot.reweight:
        yield from shares.reweigh()
    yield from shares.balance()


def _start(ranked: Iterable[Waiting], snapshot: Snapshot, rooms: Rooms) -> tuple[list[AdmitGang], list[Job]]:
    """Start every best-effort job that fits, the least expected work first, and return who does not.

    One after the other takes as many workers as its owner asked for, where the first of them are: with nearly
    linear speed-up a few jobs at full size end sooner on average than many at their smallest. If nobody is
    left to wait, they take whatever else they can use.
    """
    placed: list[tuple[Waiting, list[Replica], dict[str, int]]] = []
    stranded: list[Job] = []
    too_much: list[Amounts] = []
    for waiting in ranked:
        job = waiting.job
        if job.spec.job_class == "trial" or not reserves(job.spec):
            continue
        held = rooms.release(job.name)
        # With what fits nowhere nothing that is as large in every respect does: a long queue costs little.
        asked = amounts_of(job.spec.requests)
        if not held and any(within(less, asked) for less in too_much):
            stranded.append(job)
            continue
        members = [r for r in snapshot.members[job.name] if not r.ended]
        servers = [replica for replica in members if replica.role == "ps"]
        workers = [replica for replica in members if replica.role != "ps"]
        least = max(0, job.spec.fewest_workers - (len(snapshot.members[job.name]) - len(members)))
        placement = place_tightly(servers, workers, least, rooms)
        if placement is not None:
            grow(workers[: job.spec.wanted_workers], placement, rooms, abroad=False)
            placed.append((waiting, workers, placement))
            continue
        for node, amounts in held.items():
            rooms.reserve(job.name, node, amounts)
        stranded.append(job)
        if len(members) == 1:
            too_much.append(asked)
    started = []
    for waiting, workers, placement in placed:
        if not stranded:
            grow(workers, placement, rooms, abroad=False)
        nodes = rooms.nodes_of(placement)
        where = ", ".join(dict.fromkeys(nodes.values()))
        why = f"of those that wait and fit it has the least expected work; on {where}"
        started.append(AdmitGang(job=waiting.name, placement=nodes, reason=why))
    return started, stranded
