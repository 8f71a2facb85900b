"""Jobs that may still come, drawn from those that came lately. Pure."""

from random import Random
from typing import Final

import msgspec
from msgspec import Struct

from specon_lab.workloads.records import replica_names
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec

LATEST: Final = 128
"""Submissions that are looked back upon."""
_FEWEST: Final = 8  # below that nobody is expected to come: their rate would be a guess
_BLOCK: Final = 8  # that stay together when they are drawn, since jobs come in bursts


class Arrival(Struct, frozen=True, kw_only=True, gc=False):
    """A job that comes, and after which time."""

    after: float
    """Seconds since the one before."""
    job: Job
    """One that came, and is taken for a pattern."""


def latest_arrivals(state: State, now: float) -> tuple[Arrival, ...]:
    """Return the latest submissions, oldest first, each with the time since the one before.

    Those that were forgotten since are made up for by shorter times between the others: the rate is that at
    which the numbers of submissions grew. Empty where fewer than eight are remembered.
    """
    known = sorted(state.jobs.values(), key=lambda job: (job.submitted_at, job.order))[-LATEST:]
    if len(known) < _FEWEST:
        return ()
    span = now - known[0].submitted_at
    came = max(len(known), state.job_count - known[0].order)
    if span <= 0:
        return ()
    times = [*(job.submitted_at for job in known[1:]), now]
    thinned = len(known) / came
    return tuple(
        Arrival(after=max(0.0, until - job.submitted_at) * thinned, job=job)
        for job, until in zip(known, times, strict=True)
    )


def draw_arrivals(
    latest: tuple[Arrival, ...], rng: Random, *, until: float, most: int
) -> list[tuple[float, Job]]:
    """Draw who comes in the next `until` seconds, at most so many; in blocks, as they came."""
    found: list[tuple[float, Job]] = []
    at, left = 0.0, 0
    index = 0
    while latest and len(found) < most:
        if not left:
            index, left = rng.randrange(len(latest)), _BLOCK
        each = latest[index % len(latest)]
        # The present moment lies anywhere between two arrivals.
        at += each.after * (rng.random() if not found else 1.0)
        index, left = index + 1, left - 1
        if at > until:
            break
        found.append((at, each.job))
    return found


def newcomer(pattern: JobSpec, number: int) -> JobSpec:
    """Return a job like that one, under a name of its own."""
    name = f"{pattern.name.partition('/')[0]}/specon-newcomer-{number}"
    replicas = replica_names(name, len(pattern.worker_names), len(pattern.ps))
    return msgspec.structs.replace(pattern, name=name, replicas=replicas)
