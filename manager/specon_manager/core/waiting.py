"""Why each waiting job waits, in words with numbers: for `explain`, records and metrics. Pure.

The words come from the state and from the last decision on the job; the policy is not asked again.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from specon_manager.core import starvation
from specon_manager.core.admission_gate import find_barred_jobs
from specon_manager.core.state import State
from specon_manager.model.actions import DEFRAGMENT, Refusal
from specon_manager.model.cluster import Job, Phase, Replica
from specon_manager.model.constraints import Constraints
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot

WaitKind = Literal["quota", "room", "cooldown", "head", "starvation", "paused", "dry-run", "held-back"]
KINDS: Final[tuple[WaitKind, ...]] = (
    "quota",
    "room",
    "cooldown",
    "head",
    "starvation",
    "paused",
    "dry-run",
    "held-back",
)
"""What a job may wait for: its queue's quota, room on nodes, the end of a pause after trouble, jobs before it
in its queue, a job that has waited too long, the end of the manager's pause, a manager that orders something,
and else whatever its policy waits for."""
_OF_REFUSALS: Final[Mapping[Refusal, WaitKind]] = {
    Refusal.QUOTA: "quota",
    Refusal.STARVATION: "starvation",
    Refusal.DRY_RUN: "dry-run",
    Refusal.NO_ROOM: "room",
    Refusal.NODE_NOT_READY: "room",
    Refusal.NOT_ELIGIBLE: "room",
    Refusal.PARTIAL_GANG: "room",
}
_SHOWN_NODES: Final = 5
_GIB: Final = 2.0**30


class Waiting(Struct, frozen=True, kw_only=True, gc=False):
    """What keeps one job waiting."""

    job: str
    queue: str
    """The queue that it names; empty for none."""
    position: int
    """Of the jobs of its queue that wait, by their order of submission; 1 is next."""
    overall: int
    """Of all jobs that wait."""
    since: float
    kind: WaitKind
    text: str


def list_waits(state: State, now: float) -> Mapping[str, Waiting]:
    """Return what each job waits for that is to be admitted and is not, in the order of submission.

    Jobs whose owners let the cluster's scheduler place them do not wait here, and are not among them. The
    time is linear in replicas, and in nodes for each different kind of replica.
    """
    jobs = waiting_jobs(state)
    if not jobs:
        return {}
    snapshot = state.snapshot(now)
    hidden = _Hidden(find_barred_jobs(snapshot), starvation.jobs_behind_head(snapshot))
    rooms = _Rooms(snapshot)
    counts = Counter[str]()
    heads: dict[str, str] = {}
    found: dict[str, Waiting] = {}
    for overall, job in enumerate(jobs, 1):
        queue = job.spec.queue
        counts[queue] += 1
        head = heads.setdefault(queue, job.name)
        kind, text = _why(state, job, snapshot, hidden, rooms)
        if kind == "held-back" and counts[queue] > 1:
            kind = "head"
            text = f"{counts[queue] - 1} waiting before it in {_queue(queue)}, the first is {head}; {text}"
        found[job.name] = Waiting(
            job=job.name,
            queue=queue,
            position=counts[queue],
            overall=overall,
            since=job.queued_at or job.submitted_at,
            kind=kind,
            text=text,
        )
    return found


class _Hidden(Struct, frozen=True):
    """The jobs that no policy sees now, each with the reason."""

    barred: Mapping[str, str]
    """Those that pause, or have no quota."""
    behind: Mapping[str, str]
    """Those that come after one that has waited too long."""


def waiting_jobs(state: State) -> list[Job]:
    """Return the jobs that are to be admitted and are not, in the order of submission."""
    pending, active = set[str](), set[str]()
    for replica in state.replicas.values():
        if replica.phase is Phase.PENDING:
            pending.add(replica.job)
        elif replica.phase is Phase.RUNNING or replica.phase is Phase.STARTING:
            active.add(replica.job)
    names = pending - active - {each.job for each in state.transactions.values()}
    jobs = (state.jobs[name] for name in names if name in state.jobs)
    waits = (job for job in jobs if job.ended_at is None and (not job.owned or job.spec.held))
    return sorted(waits, key=lambda job: (job.order, job.name))


def _why(
    state: State, job: Job, snapshot: Snapshot, hidden: "_Hidden", rooms: "_Rooms"
) -> tuple[WaitKind, str]:
    """Return what stands in the way of the job first."""
    now = snapshot.now
    if state.pause is not None:
        return "paused", f"the manager is paused{f': {state.pause.reason}' if state.pause.reason else ''}"
    if job.cooldown_until > now:
        left = job.cooldown_until - now
        return "cooldown", f"its last change did not succeed; it is tried again in {left:.0f} s"
    members = [state.replicas[name] for name in job.spec.replicas if name in state.replicas]
    pauses = [each.not_before - now for each in members if each.phase is Phase.PENDING]
    if pauses and max(pauses) > 0:
        return "cooldown", f"it crashed; it is tried again in {max(pauses):.0f} s"
    if job.name in hidden.barred:
        return "quota", hidden.barred[job.name]
    if job.name in hidden.behind:
        return "starvation", hidden.behind[job.name]
    kept = f"{_describe_claim(job, snapshot)}{_describe_room(job, state, snapshot)}"
    if (needs := rooms.missing(job, members)) is not None:
        return "room", f"{needs}{kept}"
    last = state.verdicts.get(job.name)
    if last is None and len(members) == 1:
        last = state.verdicts.get(members[0].name)
    if last is not None and last.refusal is not None and (kind := _OF_REFUSALS.get(last.refusal)):
        return kind, f"{last.reason}{kept}"
    if kept:
        return "room", kept.removeprefix("; ")
    why = "" if last is None or last.refusal is None else f": {last.reason}"
    return (
        "held-back",
        f"there seems to be room, and policy {state.settings.policy} has not let it start{why}",
    )


def _describe_claim(job: Job, snapshot: Snapshot) -> str:
    """Return where room is kept for the job, in words; empty where none is."""
    claim = snapshot.claims.get(job.name)
    if claim is None or claim.until <= snapshot.now:
        return ""
    nodes = sorted({node for _, node in claim.placement})
    more = f" and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else ""
    listed = f"{', '.join(nodes[:_SHOWN_NODES])}{more}"
    return f"; room is kept for it on {listed}, for {claim.until - snapshot.now:.0f} s more at most"


def _describe_room(job: Job, state: State, snapshot: Snapshot) -> str:
    """Return which moves make room for the job, or why none do, in words; empty where nobody looked."""
    if moves := [each.id for each in snapshot.moves if each.beneficiary == job.name]:
        return f"; room is made for it by {', '.join(moves)}"
    last = state.verdicts.get(job.name)
    if job.name not in state.making_room.unhelped or last is None or last.policy != DEFRAGMENT:
        return ""
    return f"; no room is made for it: {last.reason}"


_Kind = tuple[Constraints, Resources]
"""Where a replica may run, and what it asks for."""


class _Rooms:
    """What nodes have free, looked at once for each kind of replica: thousands of jobs ask for the same."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._eligible: dict[Constraints, tuple[str, ...]] = {}
        self._fits: dict[_Kind, tuple[int, Resources]] = {}

    def missing(self, job: Job, members: list[Replica]) -> str | None:
        """Return what there is not enough of for the smallest gang of the job, None where it may fit."""
        if not self._nodes(job):
            return "no node that is ready may run it: labels, taints or volumes rule all of them out"
        waiting = [each for each in members if each.phase is Phase.PENDING]
        workers = sorted((each for each in waiting if each.role != "ps"), key=lambda each: each.index)
        servers = [each for each in waiting if each.role == "ps"]
        wanted = Counter(each.requests for each in (*servers, *workers[: job.spec.fewest_workers]))
        for requests, count in sorted(wanted.items(), key=lambda item: (-item[0].cpu, str(item[0]))):
            fits, most = self._room(job, requests)
            if fits < count:
                asked, free = _short(requests, most)
                known = f"the most that is free on any node it may use is {free}"
                if count == 1:
                    return f"it needs {asked} on one node; {known}"
                return (
                    f"it needs {count} times {asked}, each on one node; {fits} of them find room, and {known}"
                )
        return None

    def _nodes(self, job: Job) -> tuple[str, ...]:
        constraints = job.spec.constraints
        if constraints not in self._eligible:
            nodes = self._snapshot.ready_nodes
            fit = (node.name for node in nodes if self._snapshot.objection_to(node.name, job.name) is None)
            self._eligible[constraints] = tuple(fit)
        return self._eligible[constraints]

    def _room(self, job: Job, requests: Resources) -> tuple[int, Resources]:
        """Return how many such replicas fit by themselves, and the most room of each kind on a node."""
        own = job.name in self._snapshot.claims
        key = (job.spec.constraints, requests)
        if not own and key in self._fits:
            return self._fits[key]
        free = [self._snapshot.open_room(name, job.name) for name in self._nodes(job)]
        most = Resources(
            cpu=max((room.cpu for room in free), default=0.0),
            memory=max((room.memory for room in free), default=0.0),
            gpu=max((room.gpu for room in free), default=0.0),
        )
        found = sum(_times(requests, room) for room in free), most
        if not own:
            self._fits[key] = found
        return found


def _times(requests: Resources, room: Resources) -> int:
    """Return how many replicas fit side by side; at most a million if they request nothing."""
    if not requests.fits(room):
        return 0
    pairs = ((requests.cpu, room.cpu), (requests.memory, room.memory), (requests.gpu, room.gpu))
    return int(min((free / asked for asked, free in pairs if asked > 0), default=1e6))


def _short(requests: Resources, most: Resources) -> tuple[str, str]:
    """Return the requested and the free amount, in the same units."""
    asked = [(requests.cpu, most.cpu, "CPU"), (requests.memory / _GIB, most.memory / _GIB, "GiB")]
    asked.append((requests.gpu, most.gpu, "GPU"))
    named = [each for each in asked if each[0] > 0]
    lacking = [each for each in named if each[0] > each[1]]
    told = named if not lacking else [*lacking, *(each for each in named if each not in lacking)]
    return (
        ", ".join(f"{amount:.4g} {unit}" for amount, _, unit in told) or "nothing",
        ", ".join(f"{free:.4g} {unit}" for _, free, unit in told) or "nothing",
    )


def _queue(name: str) -> str:
    return f"queue {name}" if name else "the queue"
