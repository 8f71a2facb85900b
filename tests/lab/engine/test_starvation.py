"""The bound on waiting that `core.starvation` states, in simulations: it holds under every policy."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_lab.engine.run import settings_for, simulate
from specon_manager.model.resources import Resources
from support.lab.simulations import job, nodes, workload

# The default scheduler starts gangs in part; two of those may hold each other up, and never end.
POLICIES = (
    "fifo",
    "kod2",
    "kod2-backfill",
    "dragon",
    "fitgpp",
    "progress",
    "quota-fifo",
    "kubeflow",
    "srpt",
)
LIMIT = 100.0


def known(policy):
    """Return the name and the parameters of a policy."""
    if policy == "kod2-backfill":
        return "kod2", {"backfill": True, "starve_limit": 1e9}
    return policy, {}


def waits(given_workload, policy, starvation):
    """Return by job: when it came and for how long it waited until it first trained."""
    name, parameters = known(policy)
    decided = msgspec.structs.replace(settings_for(given_workload), starvation=starvation, tick=5.0)
    outcome = simulate(given_workload, name, parameters=parameters, settings=decided)
    assert all(each.state == "completed" for each in outcome.jobs)
    return [(each.submitted_at, each.started_at - each.submitted_at) for each in outcome.jobs]


def bounds(waited, longest, tick=5.0):
    """Return S + (k + 1) (L + a Tick) by job, with as many before it as still waited when it starved."""
    found = []
    for came, _ in waited:
        starves = came + LIMIT
        before = sum(other <= came and other + wait > starves for other, wait in waited) - 1
        found.append(LIMIT + (max(0, before) + 1) * (longest + tick) + tick)
    return found


def stream():
    """Return small jobs that fill two nodes for ever, and a gang that needs both of them."""
    small = [job(n, at=10.0 * n, seconds=70, requests=Resources(cpu=2)) for n in range(80)]
    gang = job(900, at=35, seconds=50, workers=8, requests=Resources(cpu=2))
    return workload(*small, gang, on=nodes(2, cpu=8.0))


@pytest.mark.parametrize("policy", ["fitgpp", "progress", "kod2-backfill", "quota-fifo", "default-scheduler"])
def test_a_gang_that_small_jobs_keep_out_waits_no_longer_than_the_bound(policy):
    """Without the bound it waits far longer under a policy that fills gaps; with it, as is stated."""
    free = waits(stream(), policy, None)
    bounded = waits(stream(), policy, LIMIT)
    limits = bounds(bounded, 70.0)
    assert bounded[-1][1] <= limits[-1]
    assert all(wait <= limit for (_, wait), limit in zip(bounded, limits, strict=True))
    if policy in {"progress", "kod2-backfill", "quota-fifo"}:
        assert free[-1][1] > limits[-1]


@settings(deadline=None, max_examples=25)
@given(
    policy=st.sampled_from(POLICIES),
    jobs=st.lists(
        st.tuples(
            st.integers(0, 300),
            st.integers(10, 150),
            st.integers(1, 6),
            st.sampled_from((1.0, 2.0, 4.0)),
            st.booleans(),
        ),
        min_size=2,
        max_size=25,
    ),
)
def test_the_bound_holds_whatever_comes_and_whatever_the_policy(policy, jobs):
    """Rigid jobs that nobody preempts: none waits for longer than S + (k + 1) (L + a Tick)."""
    arriving = [
        job(
            number,
            at=float(at),
            seconds=float(seconds),
            workers=workers,
            requests=Resources(cpu=cpu),
            spec={"checkpointing": "none", "job_class": "trial" if trial else "best-effort"},
        )
        for number, (at, seconds, workers, cpu, trial) in enumerate(jobs)
    ]
    waited = waits(workload(*arriving, on=nodes(3, cpu=8.0)), policy, LIMIT)
    longest = max(float(seconds) for _, seconds, _, _, _ in jobs)
    for (came, wait), limit in zip(waited, bounds(waited, longest), strict=True):
        assert wait <= limit, f"came at {came}, waited {wait}"
