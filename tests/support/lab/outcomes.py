"""Outcomes of simulations, made by hand."""

from __future__ import annotations

from typing import Any

from specon_lab.engine.outcome import JobOutcome, Outcome, Stay, UsePoint


def job(number: int, seconds: float | None = 100.0, **fields: Any) -> JobOutcome:
    """Return a job submitted `number` seconds after the begin that completed so much later; None: never."""
    at = float(number)
    values: dict[str, Any] = {
        "name": f"default/job-{number}",
        "job_class": "best-effort",
        "kind": "",
        "state": "completed" if seconds is not None else "unfinished",
        "reason": "" if seconds is not None else f"waited until the end for {number} GPUs",
        "submitted_at": at,
        "started_at": at,
        "ended_at": None if seconds is None else at + seconds,
        "ideal_seconds": 50.0,
    }
    return JobOutcome(**{**values, **fields})


def outcome(*jobs: JobOutcome, policy: str = "specon", seed: int = 0, **fields: Any) -> Outcome:
    """Return a run of these jobs."""
    ends = [each.ended_at for each in jobs if each.ended_at is not None]
    values: dict[str, Any] = {
        "workload": "by-hand",
        "makespan": max(ends, default=0.0),
        "allocated": 0.8,
        "used": 0.6,
    }
    return Outcome(policy=policy, seed=seed, jobs=jobs, **{**values, **fields})


def filled(count: int = 6, nodes: int = 2, **fields: Any) -> Outcome:
    """Return a run whose jobs take 100 s each in turn on their nodes, with use and stays."""
    jobs = [job(number, 100.0 + 10 * number, converged_at=50.0) for number in range(count)]
    stays = tuple(
        Stay(
            replica=f"{each.name}/worker/0",
            node=f"node-{number % nodes}",
            start=each.submitted_at,
            end=each.ended_at or 0.0,
        )
        for number, each in enumerate(jobs)
    )
    end = max(each.end for each in stays)
    use = tuple(
        UsePoint(at=end * part / 10, allocated=part / 10, used=part / 20, waiting=10 - part, running=part)
        for part in range(11)
    )
    return outcome(*jobs, use=use, stays=stays, **fields)
