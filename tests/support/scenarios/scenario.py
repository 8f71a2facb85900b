"""Scenarios: a cluster, a course of events and its expected result, for any backend.

One table (`scenario_table`) for every runner. A runner is anything that lets the jobs of a scenario arrive,
lets its course happen, drives `step` until `ends`, and returns the state. It needs no more than this module.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from specon_manager.core.state import State
from specon_manager.model.cluster import JobSpec, Phase, role_of
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.model.transactions import Transaction

SETTINGS = Settings(
    tick=1.0,
    budgets=Budgets(cooldown=0, retry_cooldown=30, change_cooldown=5),
    gate=Gate(enabled=False),
    deadlines=Deadlines(
        start=10,
        hold=5,
        checkpoint=10,
        eviction_margin=5,
        verify=20,
        crash_backoff=1,
        claim=300,
        ready=15,
    ),
)
MANAGER, OWNER, SIMULATOR = "manager", "owner", "simulator"
EVERYWHERE = (MANAGER, OWNER, SIMULATOR)


class Arrival(Struct, frozen=True, kw_only=True):
    """A job that arrives: so many workers, that train for so long with all of them."""

    name: str
    at: float = 0.0
    workers: int = 1
    fewest: int | None = None
    most: int | None = None
    ps: int = 0
    cpu: float = 1.0
    seconds: float = 1000.0
    resizing: str = "live"
    spec: Mapping[str, object] = field(default_factory=dict)

    def described(self, placed_by: str) -> JobSpec:
        """Return the job as a manager is told of it; `owner`: as one that waits to be admitted by us."""
        full = f"default/{self.name}"
        names = [f"{full}/ps/{index}" for index in range(self.ps)]
        names += [f"{full}/worker/{index}" for index in range(self.most or self.workers)]
        job = JobSpec(
            name=full,
            replicas=tuple(names),
            requests=Resources(cpu=self.cpu),
            workers=self.workers,
            min_workers=self.fewest,
            resizing=self.resizing,
            grace_seconds=5.0,
            placed_by=placed_by,
            held=placed_by == OWNER,
            present=self.workers if placed_by == OWNER else None,
        )
        facts = {"queue": "main" if placed_by == OWNER else "", **self.spec}
        return JobSpec(**{name: getattr(job, name) for name in job.__struct_fields__} | facts)


class Lose(Struct, frozen=True):
    """A node is lost for so many seconds, with all that is on it."""

    at: float
    node: str
    seconds: float


class Delete(Struct, frozen=True):
    """A user deletes a job."""

    at: float
    job: str


class Edit(Struct, frozen=True):
    """A user asks for another number of workers, in the job's own object."""

    at: float
    job: str
    workers: int


class Quotas(Struct, frozen=True):
    """The queues have these quotas from now on."""

    at: float
    queues: tuple[Queue, ...]


class Stall(Struct, frozen=True):
    """From now on this replica never comes to run."""

    at: float
    replica: str


class Mute(Struct, frozen=True):
    """From now on the job's sidecars answer no request for a checkpoint."""

    at: float
    job: str


Happening = Lose | Delete | Edit | Quotas | Stall | Mute


class Scenario(Struct, frozen=True, kw_only=True):
    """What is given, what happens, and what is to come of it."""

    name: str
    rule: str
    """In one line: why the expected is right."""
    policy: str
    jobs: tuple[Arrival, ...]
    expected: tuple[str, ...]
    """The transactions in the order in which they began, as `in_words` says them."""
    stands: Mapping[str, str]
    """What is there at the end, by job, as `standing` says it."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Part of the note of a transaction, by its words."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    nodes: Mapping[str, float] = field(default_factory=lambda: {"node-1": 4.0, "node-2": 4.0})
    """CPUs by node."""
    course: tuple[Happening, ...] = ()
    ends: float = 100.0
    """When it is looked at, seconds; then nothing is under way."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Of the manager, beside `SETTINGS`."""
    runners: tuple[str, ...] = EVERYWHERE
    """Who can let all of this happen."""

    def manager(self) -> Settings:
        """Return the settings of the manager."""
        given = {name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__}
        chosen = {"policy": self.policy, "parameters": dict(self.parameters), **self.settings}
        return Settings(**(given | chosen))


def in_words(change: Transaction) -> str:
    """Return a transaction as `KIND JOB: BEFORE to AFTER workers, STATE`."""
    job, before, after = change.job.removeprefix("default/"), _workers(change.before), _workers(change.after)
    return f"{change.kind} {job}: {before} to {after} workers, {change.state}"


def changes_of(state: State) -> list[Transaction]:
    """Return all transactions in the order in which they began."""
    known = [*state.history, *state.transactions.values()]
    return sorted(known, key=lambda change: int(change.id.rpartition("-")[2]))


def standing(state: State, job: str) -> str:
    """Return `4 workers on node-1, node-2`, `waits`, `complete` or `gone`."""
    known = state.jobs.get(f"default/{job}")
    if known is None:
        return "gone"
    if known.ended_at is not None:
        return "complete"
    members = [state.replicas[name] for name in known.spec.replicas]
    running = [member for member in members if member.phase is Phase.RUNNING]
    if running:
        workers = sum(member.role != "ps" for member in running)
        return f"{workers} workers on {', '.join(sorted({member.node or '' for member in running}))}"
    return "waits" if any(member.phase is Phase.PENDING for member in members) else "starts"


def check(scenario: Scenario, state: State) -> None:
    """Compare what came of a scenario with what it says."""
    begun = changes_of(state)
    assert tuple(in_words(change) for change in begun) == scenario.expected
    for change in begun:
        wanted = scenario.notes.get(in_words(change), "")
        assert wanted in change.note, f"{in_words(change)}: {change.note}"
    assert {name: standing(state, name) for name in scenario.stands} == dict(scenario.stands)
    _check_capacity(state)


def _check_capacity(state: State) -> None:
    for node in state.nodes.values():
        here = [r for r in state.replicas.values() if r.active and r.node == node.name]
        assert sum(replica.requests.cpu for replica in here) <= node.capacity.cpu + 1e-9, node.name


def _workers(placement: Mapping[str, str]) -> int:
    return sum(role_of(name) != "ps" for name in placement)
