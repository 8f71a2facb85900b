"""What each policy would do with a state, now and later, put side by side.

As JSON, for other programs, one object, described in docs/simulate.md: `schema` 1; `versions`; `state`;
`remaining`; `approximations`; `policies`. An unknown value is null.
"""

import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from specon_lab.engine.outcome import Outcome
from specon_lab.forecasts.forecast import APPROXIMATIONS, Remaining
from specon_lab.results.report import HURT_MARGIN_PERCENT, Verdicts, condense, verdicts
from specon_manager import __version__
from specon_manager.core.plan import Ruling
from specon_manager.core.state import State
from specon_manager.core.transaction.members import workers
from specon_manager.model.actions import (
    Admit,
    AdmitGang,
    Claim,
    Migrate,
    MigrateGang,
    Reweight,
    ScaleIn,
    ScaleOut,
    subject,
)

MOST_LISTED: Final = 1000
"""Proposals of a policy in JSON: so many that would be ordered, and so many that would be refused."""


class Said(Struct, frozen=True, kw_only=True):
    """One proposal in words."""

    proposal: str
    """What kind of proposal, for instance `AdmitGang`."""
    subject: str
    """The job or the replica."""
    target: str
    """Where to, or to what weight; empty where there is no such thing."""
    reason: str
    """The policy's reason, or why it would be refused."""
    refusal: str | None = None
    workers: tuple[int, int] | None = None
    """How many the job has and would have, where it is admitted or scaled."""


class Now(Struct, frozen=True, kw_only=True):
    """What a policy would do at this moment."""

    ordered: tuple[Said, ...]
    refused: tuple[Said, ...]
    ordered_in_all: int
    refused_in_all: int


class Predicted(Struct, frozen=True, kw_only=True):
    """The predicted course of one job."""

    job: str
    seconds: float | None
    """From now to its end; None where it does not complete in the time that was looked at."""
    state: str
    reason: str


class PolicyForecast(Struct, frozen=True, kw_only=True):
    """One policy."""

    policy: str
    """As it was asked for."""
    present: bool
    """Whether it is the one that the manager goes by."""
    now: Now
    jobs: tuple[Predicted, ...]
    """In the order of submission."""
    average_seconds: float | None
    """Over the jobs that complete."""
    last_seconds: float | None
    """Until the last of them has completed."""
    completed: int
    preemptions: int
    moves: int
    against_present: Verdicts | None
    """How many jobs end earlier or later than under the present policy, by more than 1 %; None for itself."""


class StateSize(Struct, frozen=True, kw_only=True):
    """What the state holds that counts."""

    policy: str
    nodes_ready: int
    nodes: int
    waiting: int
    """Jobs."""


class Foreseen(StateSize, frozen=True, kw_only=True):
    """What the future is made of."""

    jobs: int
    """Those that have not ended, and are not about to."""


class WhatIf(Struct, frozen=True, kw_only=True):
    """The answer."""

    schema: Literal[1] = 1
    versions: Mapping[str, str]
    state: Foreseen
    horizon_seconds: float | None
    approximations: tuple[str, ...]
    remaining: tuple[Remaining, ...]
    policies: tuple[PolicyForecast, ...]


def versions() -> Mapping[str, str]:
    """Return what made an answer."""
    return {"specon": __version__, "python": platform.python_version()}


def size_of(state: State, waiting: int) -> dict[str, Any]:
    """Return the fields of `StateSize`, so many jobs of the state waiting."""
    return {
        "policy": state.settings.policy,
        "nodes_ready": sum(node.ready for node in state.nodes.values()),
        "nodes": len(state.nodes),
        "waiting": waiting,
    }


def answer(
    state: State, remaining: tuple[Remaining, ...], policies: Sequence[PolicyForecast], horizon: float | None
) -> WhatIf:
    """Return everything that is told."""
    return WhatIf(
        versions=versions(),
        state=Foreseen(jobs=len(remaining), **size_of(state, sum(each.waits for each in remaining))),
        horizon_seconds=horizon,
        approximations=APPROXIMATIONS,
        remaining=remaining,
        policies=tuple(policies),
    )


def policy_forecast(
    label: str, judged: Sequence[Ruling], outcome: Outcome, present: Outcome, state: State
) -> PolicyForecast:
    """Return what a policy would do and what comes of it, beside what comes of the present one."""
    completions = [job.completion_seconds for job in outcome.jobs]
    known = [each for each in completions if each is not None]
    against = None
    if outcome is not present:
        one, other = condense(outcome, label, seed=0), condense(present, "present", seed=0)
        against = verdicts(one, other, HURT_MARGIN_PERCENT)
    return PolicyForecast(
        policy=label,
        present=outcome is present,
        now=_now(judged, state),
        jobs=tuple(
            Predicted(job=job.name, seconds=seconds, state=job.state, reason=job.reason)
            for job, seconds in zip(outcome.jobs, completions, strict=True)
        ),
        average_seconds=sum(known) / len(known) if known else None,
        last_seconds=max(known, default=None),
        completed=len(known),
        preemptions=sum(job.preemptions for job in outcome.jobs),
        moves=sum(job.moves for job in outcome.jobs),
        against_present=against,
    )


def to_json(found: WhatIf) -> bytes:
    """Return the answer as indented JSON that ends in a newline."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _now(judged: Sequence[Ruling], state: State) -> Now:
    said = [_describe(each, state) for each in judged]
    ordered = [each for each in said if each.refusal is None]
    refused = [each for each in said if each.refusal is not None]
    return Now(
        ordered=tuple(ordered[:MOST_LISTED]),
        refused=tuple(refused[:MOST_LISTED]),
        ordered_in_all=len(ordered),
        refused_in_all=len(refused),
    )


def _describe(judged: Ruling, state: State) -> Said:
    proposal, objection = judged.proposal, judged.objection
    return Said(
        proposal=type(proposal).__name__,
        subject=subject(proposal),
        target=_target(judged),
        reason=str(proposal.reason) if objection is None else objection.text,
        refusal=None if objection is None else str(objection.refusal),
        workers=_workers(judged, state),
    )


def _target(judged: Ruling) -> str:
    proposal = judged.proposal
    if isinstance(proposal, Admit):
        return proposal.node
    if isinstance(proposal, Migrate):
        return proposal.target
    if isinstance(proposal, Reweight):
        return f"{proposal.weight:g}"
    if isinstance(proposal, AdmitGang | MigrateGang | ScaleOut | Claim):
        return ", ".join(sorted(set(proposal.placement.values()), key=lambda node: (len(node), node)))
    return ""


def _workers(judged: Ruling, state: State) -> tuple[int, int] | None:
    """Return how many workers the job has, and would have; None where their number is not what changes."""
    proposal = judged.proposal
    if not isinstance(proposal, AdmitGang | ScaleOut | ScaleIn) or proposal.job not in state.jobs:
        return None
    members = (state.replicas[name] for name in state.jobs[proposal.job].spec.replicas)
    before = sum(each.active and each.leaving is None and each.role != "ps" for each in members)
    if isinstance(proposal, ScaleIn):
        return before, before - len(proposal.replicas)
    return before, before + workers(proposal.placement)
