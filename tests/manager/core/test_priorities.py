"""Priorities, and two trials that choose the same victim."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.model.actions import Preempt, Refusal
from specon_manager.policies import fitgpp, lrtp, rand
from support.decisions.gangs import gang, on, with_gang, worker
from support.decisions.told import state_of

NOW = 1000.0


def node(count, job):
    return on("node-0", *(worker(job, index) for index in range(count)))


def victim(state, job, count=2, **changes):
    return with_gang(state, gang(job, count, ps=0, **changes), node(count, job))


def trial(state, job, count=2, **changes):
    return with_gang(state, gang(job, count, ps=0, job_class="trial", **changes), {})


def preempted(module, settings, state):
    proposals = list(module.propose(state.snapshot(NOW), settings))
    found = [each for each in proposals if isinstance(each, Preempt)]
    return [(each.job.removeprefix("default/"), each.beneficiary.removeprefix("default/")) for each in found]


POLICIES = [
    (fitgpp, fitgpp.FitGppSettings()),
    (lrtp, lrtp.LrtpSettings()),
    (rand, rand.RandSettings()),
]


@pytest.mark.parametrize(("module", "settings"), POLICIES)
def test_nobody_is_preempted_for_a_job_of_lower_priority(module, settings):
    """The other one goes, though it would not be the first choice; where all rank higher the trial waits."""
    full = victim(victim(state_of(nodes=1), "low", grace_seconds=90), "high", grace_seconds=1, priority=5)
    assert preempted(module, settings, trial(full, "t")) == [("low", "t")]
    full = victim(victim(state_of(nodes=1), "a", priority=9), "b", priority=5)
    assert preempted(module, settings, trial(full, "t", priority=4)) == []


@pytest.mark.parametrize(("module", "settings"), POLICIES)
def test_a_trial_that_ranks_higher_finds_victims_where_a_lower_one_found_none(module, settings):
    """That the first one had no victim is not held against the second."""
    full = victim(victim(state_of(nodes=1), "a", priority=5), "b", priority=5)
    state = trial(trial(full, "t"), "u", priority=6)
    assert [gains for _, gains in preempted(module, settings, state)] == ["u"]


@pytest.mark.parametrize(("module", "settings"), POLICIES)
def test_two_trials_never_get_the_same_victim(module, settings):
    """One gets it; the other gets another one, or waits."""
    state = trial(trial(victim(state_of(nodes=1, cpus=2.0), "v"), "t"), "u")
    assert preempted(module, settings, state) == [("v", "t")]
    both = victim(victim(state_of(nodes=1), "v"), "w")
    chosen = preempted(module, settings, trial(trial(both, "t"), "u"))
    assert sorted(job for job, _ in chosen) == ["v", "w"]
    assert [gains for _, gains in chosen] == ["t", "u"]


def test_the_plan_refuses_what_a_policy_without_priorities_proposes():
    """With the numbers; without a known beneficiary there is nothing to compare."""
    state = trial(victim(state_of(nodes=1), "v", priority=3), "t", priority=2)
    cases = {
        "default/t": (Refusal.PRIORITY, "its priority, 3, is above that of default/t, 2"),
        "": None,
        "default/unknown": None,
    }
    for gains, expected in cases.items():
        (only,) = plan(state, [Preempt(job="default/v", reason="why", beneficiary=gains)], NOW)
        assert (only.objection and (only.objection.refusal, only.objection.text)) == expected


def test_the_plan_gives_a_victim_to_one_trial_only():
    """The second preemption of the same job is one that is in flight already."""
    state = trial(trial(victim(state_of(nodes=1), "v"), "t"), "u")
    both = [Preempt(job="default/v", reason="why", beneficiary=f"default/{gains}") for gains in "tu"]
    assert [v.objection and v.objection.refusal for v in plan(state, both, NOW)] == [None, Refusal.IN_FLIGHT]


def test_a_job_that_is_not_seen_is_not_served():
    """Neither what is withheld nor what is being changed is in a queue."""
    state = trial(victim(state_of(nodes=1, cpus=2.0), "v"), "t")
    snapshot = state.snapshot(NOW).without({"default/t": "over quota"})
    assert list(fitgpp.propose(snapshot, fitgpp.FitGppSettings())) == []
    assert msgspec.json.encode(state)
