"""The begin of a simulation: jobs that run where they are, and the knowledge learnt before."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from specon_lab.engine.backend import SimulatedBackend
from specon_lab.engine.world import World
from specon_manager.core.orders import order
from specon_manager.core.state import Measured, State
from specon_manager.model.actions import Admit, StartReplica
from specon_manager.model.cluster import Claimed, Job, Phase, Replica, Served

_REASON = "it runs there already"


class Underway(Struct, frozen=True, kw_only=True):
    """A job that was there before; all times are those of the simulation, so at most 0."""

    job: Job
    """Its times, what it attained in all, when it was preempted; `trains_since` counts where it runs."""
    replicas: tuple[Replica, ...]
    """The records of each; those that are running or starting run on their nodes from the begin on."""
    done_seconds: float = 0.0
    """How much of its training is done."""


class Beginning(Struct, frozen=True, kw_only=True):
    """The world at time 0, beside the jobs that arrive later; each of its jobs arrives at 0 as well."""

    jobs: Mapping[str, Underway] = field(default_factory=dict)
    served: Mapping[str, Served] = field(default_factory=dict)
    claims: Mapping[str, Claimed] = field(default_factory=dict)
    measured: Measured = Measured()
    changed_at: float = 0.0
    looks_again: bool = False
    """Whether a Tick comes a minute after each start, as that of a manager that has more of them would."""


def take_up(world: World, backend: SimulatedBackend, beginning: Beginning) -> None:
    """Let the jobs that have just arrived be as they are said to be, before any policy is asked."""
    known = {name: job for name, job in beginning.jobs.items() if name in world.jobs}
    state = world.state
    admissions, records = [], {}
    for name, underway in known.items():
        state = state.with_job(_take_over(state.jobs[name], underway.job))
        for replica in underway.replicas:
            records[replica.name] = replica
            state = _with_record(state, replica)
            if replica.active and replica.node in world.nodes:
                admissions.append(Admit(replica=replica.name, node=replica.node, reason=_REASON))
    # Nothing judges these: they are no decisions but facts.
    state, actions = order(state, admissions, world.now)
    for admission in admissions:
        weighed = msgspec.structs.replace(
            state.replicas[admission.replica], weight=records[admission.replica].weight
        )
        state = state.with_replica(weighed)
    claims = {job: claim for job, claim in beginning.claims.items() if job in known}
    world.state = msgspec.structs.replace(
        state.flatten(),
        served=beginning.served,
        claims=claims,
        measured=beginning.measured,
        changed_at=beginning.changed_at,
    )
    for action in actions:
        if isinstance(action, StartReplica):
            backend.take_over(action)
        else:
            backend.carry_out(action)
    for name, underway in known.items():
        trainer = world.jobs[name].trainer
        trainer.done = trainer.saved = underway.done_seconds


def train_on(world: World, beginning: Beginning) -> list[float]:
    """Let those that train have trained for as long as they are said to, once the manager has heard of it.

    Who has just begun is preempted for nobody. Return since when they train, seconds, at most now.
    """
    state, found = world.state, list[float]()
    for name, underway in beginning.jobs.items():
        job, since = state.jobs.get(name), underway.job.trains_since
        if job is None or since is None or job.trains_since != world.now:
            continue
        trained = min(world.now - since, job.attained_seconds)
        found.append(world.now - trained)
        state = state.with_job(
            msgspec.structs.replace(
                job,
                attained_seconds=job.attained_seconds - trained,
                trains_since=world.now - trained,
            )
        )
    world.state = state.flatten()
    return found


def _take_over(arrived: Job, known: Job) -> Job:
    return msgspec.structs.replace(
        arrived,
        submitted_at=known.submitted_at,
        queued_at=known.queued_at,
        admitted_at=known.admitted_at,
        attained_seconds=known.attained_seconds,
        preemptions=known.preemptions,
        preempted_at=known.preempted_at,
        failures=known.failures,
        cooldown_until=known.cooldown_until,
    )


def _with_record(state: State, known: Replica) -> State:
    """Return the state with the record of the replica; a replica that is to run waits for its admission."""
    phase = Phase.ABSENT if known.phase is Phase.ABSENT else Phase.PENDING
    return state.with_replica(
        msgspec.structs.replace(
            state.replicas[known.name],
            phase=phase,
            progress=known.progress,
            crashes=known.crashes,
            moves=known.moves,
            attempts=known.attempts,
            moved_for=known.moved_for,
            cooldown_until=known.cooldown_until,
        )
    )
