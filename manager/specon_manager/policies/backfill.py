"""Starting what waits in a given order, each wherever it fits: gangs at full size, tightly placed."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from specon_manager.model.actions import AdmitGang
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.resources import Resources
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.idle import Idle
from specon_manager.policies.packing import grow, place_on, place_tightly, roomiest
from specon_manager.policies.preemption.queues import Queued


class Gang(Struct, frozen=True):
    """What of a waiting job is to start."""

    job: Job
    servers: Sequence[Replica]
    workers: Sequence[Replica]
    """All that have not ended, by index."""
    least: int
    """How many workers it needs at least."""


def gang_of(job: Job, snapshot: Snapshot) -> Gang:
    """Return what has not ended of a job."""
    members = [snapshot.replicas[name] for name in job.spec.replicas]
    left = [replica for replica in members if not replica.ended]
    servers = [replica for replica in left if replica.role == "ps"]
    workers = [replica for replica in left if replica.role != "ps"]
    ended = sum(replica.ended and replica.role != "ps" for replica in members)
    return Gang(job, servers, workers, max(0, job.spec.fewest_workers - ended))


PlacedGang = tuple[Gang, dict[str, str]]
"""The replicas to start, and where: node by replica."""
PlacedForReason = tuple[dict[str, str], str]
"""Where it is to start, and why there."""


def fill(  # noqa: C901, PLR0917  (one pass over the queue, and what a policy may do in it)
    waiting: Iterable[Queued],
    snapshot: Snapshot,
    idle: Idle,
    strand: Callable[[Job, Sequence[PlacedGang]], None],
    choose: Callable[[Gang, Idle], PlacedForReason | None] = lambda _gang, _idle: None,
    waits: Callable[[Gang, int], bool] = lambda _gang, _workers: False,
) -> tuple[list[AdmitGang], list[Job]]:
    """Start every job that fits, in this order, and return who does not.

    `strand` is told at once of each job that does not, with the replicas placed before it: room that it
    reserves is not given to those who come after. `choose` may take room for a job, where it has reasons of
    its own. `waits` says of a gang whether it had better wait than start with so few workers beside its
    servers.

    One after the other takes as many workers as its owner asked for, where the first of them are: with nearly
    linear speed-up a few jobs at full size end sooner on average than many at their smallest. If nobody is
    left to wait, they take whatever else they can use.
    """
    placed: list[PlacedGang] = []
    stranded: list[Job] = []
    too_much = list[tuple[Resources, int]]()
    reasons = dict[str, str | None]()
    redeemed = False
    for each in waiting:
        job = each.job
        held = idle.release(job.name)
        # With what fits nowhere nothing that is as large in every respect does: a long queue costs little.
        asked = job.spec.requests
        fewest = job.spec.fewest_workers
        alike = not job.spec.unlike  # else it asks for less than so many of the largest
        if not held and alike and any(less.fits(asked) and number <= fewest for less, number in too_much):
            stranded.append(job)
            strand(job, placed)
            continue
        gang = gang_of(job, snapshot)
        wanted = gang.workers[: job.spec.wanted_workers]
        placement, reason = (None if held else choose(gang, idle)) or (None, None)
        if placement is None and gang.servers and not held:
            placement, better_later = _beside_servers(gang, idle, waits)
            if better_later:
                stranded.append(job)
                strand(job, placed)
                continue
        if placement is None:
            placement = place_tightly(gang.servers, gang.workers, gang.least, idle)
        if placement is not None:
            # Far from its servers a worker waits, and where a model was chosen others would slow it.
            grow(wanted, placement, idle, abroad=not gang.servers and reason is None)
            reasons[job.name] = reason
            placed.append((gang, placement))
            redeemed = redeemed or bool(held)
            continue
        for node, amounts in held.items():
            idle.reserve(job.name, node, amounts)
        stranded.append(job)
        strand(job, placed)
        if not gang.servers and not held and gang.least == fewest:
            too_much.append((asked, fewest))
    started = []
    for gang, placement in placed:
        # What someone who comes later gives up is not free yet when the first of these is judged.
        if not stranded and not redeemed:
            grow(gang.workers, placement, idle, abroad=False)
        where = ", ".join(dict.fromkeys(placement.values()))
        why = f"of those that wait and fit it has the least expected work; on {where}"
        if (reason := reasons[gang.job.name]) is not None:
            why = f"{why}, {reason}"
        started.append(AdmitGang(job=gang.job.name, placement=placement, reason=why))
    return started, stranded


def _beside_servers(
    gang: Gang, idle: Idle, waits: Callable[[Gang, int], bool]
) -> tuple[dict[str, str] | None, bool]:
    """Take room where most of its workers fit beside its servers: that is how large it can become.

    Returns node by replica, None where no node holds its smallest form, and whether it had better wait.
    """
    wanted = gang.workers[: gang.job.spec.wanted_workers]
    best = roomiest(gang.servers, wanted, gang.least, idle)
    now = gang.least if best is None else best[1]
    if now < len(wanted) and waits(gang, now):
        return None, True
    return (None if best is None else place_on(best[0], (*gang.servers, *wanted[:now]), idle)), False
