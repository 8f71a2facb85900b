"""specon's own policy: least expected work first, in place where it can be, with no harm where it cannot.

It combines the parts that measured best (`docs/results/ours.md`): shortest remaining processing
time on what sidecars learn (SRPT; the estimates are those of `expectation`), demand counted by its size, as
batch work is scheduled by area; weights in place before any move (SLAQ's shares by gain); FitGpp's choice of
a victim for trials; elastic gangs that begin small while others wait, and grow where they are.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from specon_manager.model.actions import AdmitGang, Claim, Proposal
from specon_manager.model.cluster import Job
from specon_manager.model.settings import Seconds
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.backfill import fill
from specon_manager.policies.elasticity import resize
from specon_manager.policies.expectation import Expectation, Objective
from specon_manager.policies.fitgpp import FitGppSettings, FittingGracePeriod
from specon_manager.policies.fuller_start import FullerStart
from specon_manager.policies.idle import Idle, NodeChoice
from specon_manager.policies.lateness import Lateness
from specon_manager.policies.making_way import make_way
from specon_manager.policies.model_choice import ModelChoice
from specon_manager.policies.preemption.admission import restart
from specon_manager.policies.preemption.queues import Queues
from specon_manager.policies.preemption.running import Running
from specon_manager.policies.preemption.shorter import ShorterFirst
from specon_manager.policies.preemption.trials import PreemptionSettings, Trials
from specon_manager.policies.reservation import Reservation, find_awaited_nodes
from specon_manager.policies.shared_nodes import reserves
from specon_manager.policies.shares import Shares
from specon_manager.policies.time_sharing import share_time


class ProgressSettings(PreemptionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set of specon's own policy."""

    objective: Objective = "balanced"
    """Whether jobs are to be complete soon, to have converged soon (`quality`), or both alike."""
    node_choice: NodeChoice = "best-fit"
    """Of the nodes that have room: the one that the replica leaves least free, or the first by name."""
    prior_seconds: Seconds = 600.0
    """How long a job is taken to train before anything was learnt of any, seconds."""
    patience: Seconds = 3600.0
    """A job is late after so long, seconds, and after `patience_factor` times what it would take with a fair
    share of the cluster: then it goes first, and nobody preempts it for being shorter."""
    patience_factor: Annotated[float, Meta(ge=0, le=1e6)] = 2.0
    """See `patience`; room is kept for such a job, one at a time, where it is expected to be free first."""
    probe_seconds: Seconds = 30.0
    """How long a job that shares processors is served first, so that its sidecar learns its work."""
    probe_rank: Seconds = 100.0
    """How much it counts as having left meanwhile, seconds: who has less continues before it."""
    low_weight: Annotated[float, Meta(gt=0, le=1)] = 0.02
    """Weight of a job that shares a node and is not first there; 1: all get the same."""
    margin: Annotated[float, Meta(ge=0, lt=1)] = 0.2
    """By how much less another must have left before it takes the turn: estimates err."""
    move_seconds: Seconds = 10.0
    """What a job must wait at least where it is before it is moved to an idle node, seconds."""
    resize_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 60.0
    """What a change of the number of workers is taken to cost, seconds; growing must gain twice as much."""
    size_power: Annotated[float, Meta(ge=0, le=10)] = 0.5
    """How much the size of the demand counts against a job beside its time; 0: not at all."""
    shrink_ratio: Annotated[float, Meta(ge=0, le=1e6)] = 0.5
    """A job gives up workers for one that waits and has at most this part of its own time left; 0: never."""
    preemption_ratio: Annotated[float, Meta(ge=1, le=1e6)] | None = 2.0
    """How many times as much must a best-effort job have left that is preempted for another; null: nobody."""
    preemption_seconds: Annotated[float, Meta(ge=0, le=1e6)] = 30.0
    """What such a preemption is taken to cost each of the two jobs beside the grace period, seconds."""
    least_run: Annotated[float, Meta(ge=0, le=1e6)] = 60.0
    """How long a job trains at least before it is preempted for a shorter one, seconds."""
    grace_weight: Annotated[float, Meta(ge=0, le=1e6)] = 4.0
    """s of FitGpp's equation (3), for the choice of a victim."""


def propose(snapshot: Snapshot, settings: ProgressSettings) -> Iterator[Proposal]:
    """Propose everything that should happen now."""
    if not snapshot.ready_nodes:
        return
    expected = Expectation(
        snapshot,
        prior_seconds=settings.prior_seconds,
        size_power=settings.size_power,
        objective=settings.objective,
    )
    queues, idle = Queues(snapshot), Idle(snapshot, choice=settings.node_choice)
    late = Lateness(snapshot, expected, settings)
    reservation = Reservation(snapshot, expected, idle, late)
    proposals: list[Proposal] = list(restart(snapshot, queues, idle))
    given_up = list(reservation.give_way(proposals)) if queues.torn else []
    ranked = sorted(
        (*queues.trials(), *queues.best_effort()),
        key=lambda waiting: _rank(waiting.job, expected, late),
    )
    shares = Shares(snapshot, expected, settings)
    proposals += [shares.admit(waiting) for waiting in ranked if not reserves(waiting.job.spec)]
    if snapshot.reweight:
        proposals += shares.reweigh()
    proposals += share_time(snapshot, expected, settings)
    trials = Trials(snapshot, queues, idle, lambda running: _victims(running, snapshot, idle, settings))
    waits: list[Job] = []
    for waiting in ranked:
        job = waiting.job
        if job.spec.job_class != "trial" or not reserves(job.spec):
            continue
        served = list(trials.serve(waiting))
        if job.name in snapshot.claims and reservation.holds(job.name):
            # Room kept for it is not about to become free, as it is with victims, but will in time.
            served = [each for each in served if not isinstance(each, Claim) or each.placement]
        proposals += served
        if not served and job.name not in snapshot.claims:
            waits.append(job)
            reservation.keep(job, (), proposals)
    rest = [
        waiting for waiting in ranked if waiting.job.spec.job_class != "trial" and reserves(waiting.job.spec)
    ]
    models = ModelChoice(snapshot, rest)
    started, stranded = fill(
        rest,
        snapshot,
        idle,
        lambda job, placed: reservation.keep(job, placed, proposals),
        models.choose,
        FullerStart(snapshot, idle, expected, late),
    )
    proposals += started
    if reservation.claim is not None:
        proposals.append(reservation.claim)
    proposals += list(
        resize(
            snapshot,
            expected,
            proposals,
            [*waits, *stranded],
            resize_seconds=settings.resize_seconds,
            shrink_ratio=settings.shrink_ratio,
        )
    )
    shorter = ShorterFirst(snapshot, idle, expected=expected, late=late, settings=settings)
    proposals += list(shorter.serve(stranded, proposals))
    promised = {
        node
        for proposal in proposals
        if isinstance(proposal, AdmitGang)
        for node in proposal.placement.values()
    }
    # Who starts has no claim any more, and who chose again has another.
    about = {each.job for each in proposals if isinstance(each, AdmitGang | Claim)}
    yield from proposals
    yield from (claim for claim in given_up if claim.job not in about)
    leave = list(shares.balance(promised))
    yield from leave
    yield from make_way(snapshot, {*promised, *(move.target for move in leave)})


def _victims(
    running: Running, snapshot: Snapshot, idle: Idle, settings: ProgressSettings
) -> FittingGracePeriod:
    """Choose victims as FitGpp does, but none whose room is waited for: it would go to who has the claim."""
    kept = find_awaited_nodes(snapshot, idle)
    choice = FitGppSettings(
        max_preemptions=settings.max_preemptions,
        node_choice=settings.node_choice,
        grace_weight=settings.grace_weight,
    )
    return FittingGracePeriod(running.beside(kept), choice, snapshot.now)


def _rank(job: Job, expected: Expectation, late: Lateness) -> tuple[bool, float, int]:
    """Order the queue: who is late, by age; then by expected work."""
    if late(job):
        return False, 0.0, job.order
    return True, expected.work(job), job.order
