"""Whom Kueue preempts: its own test cases come out as it says, and its order is kept."""

from pathlib import Path

import msgspec
import pytest
import yaml

from specon_manager.backends.kube.kueue.facts import Quota
from specon_manager.backends.kube.kueue.victims import MOST, likely_victims, order_of, victims
from support.kube.kueue_objects import NOW, queue, running, waiting

CASES = yaml.safe_load(Path(__file__).with_name("kueue_cases.yaml").read_text("utf-8"))


def queues_of(told):
    found = {}
    for each in told:
        shares = {key: value for key, value in each.items() if "/" in key}
        made = queue(
            each["name"],
            cohort=each["cohort"],
            within=each["within"],
            reclaim=each["reclaim"],
            borrows="threshold" in each,
            threshold=each.get("threshold"),
            **{key: value[0] if isinstance(value, list) else value for key, value in shares.items()},
        )
        limits = {tuple(key.split("/")): value for key, value in shares.items() if isinstance(value, list)}
        quotas = {**made.quotas, **{key: Quota(*value) for key, value in limits.items()}}
        found[made.name] = msgspec.structs.replace(made, quotas=quotas)
    return found


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"][:60])
def test_kueue_s_own_cases_come_out_as_its_test_says(case):
    """The same Workloads run, the same one comes, and the same ones go."""
    queues = queues_of(CASES["queues"])
    comes = dict(case["comes"])
    target = comes.pop("queue")
    runs = [running(**each) for each in case["runs"]]
    gone = victims(waiting("in", **comes), target, runs, queues, NOW)
    assert sorted(each.name for each in gone) == sorted(case["preempted"])


def test_the_order_is_evicted_other_queues_priority_and_what_came_last():
    """As `CandidatesOrdering` lists it, without the fair shares of LocalQueues."""
    wanted = [
        running("evicted", "own", 9, evicted=True),
        running("other", "other", 5),
        running("low", "own", -1),
        running("later", "own", 0, reserved=9),
        running("earlier", "own", 0, reserved=1),
        running("high", "own", 1),
    ]
    shuffled = sorted(wanted, key=lambda each: each.name)
    assert sorted(shuffled, key=lambda each: order_of(each, "own", NOW)) == wanted


def test_where_the_sum_does_not_come_out_the_first_of_the_order_are_likely():
    """Kueue has said that it would preempt somebody: to ask nobody would be worse than to ask too many."""
    queues = {"own": queue("own", within="LowerPriority", **{"default/cpu": 4})}
    runs = [running(f"w{index:02}", "own", -1, **{"default/cpu": 1}) for index in range(MOST + 4)]
    comes = waiting("in", priority=1, cpu=5)
    assert victims(comes, "own", runs, queues, NOW) == ()
    found = likely_victims(comes, "own", runs, queues, NOW)
    assert [each.name for each in found] == [f"w{index:02}" for index in range(MOST)]


def test_a_queue_that_nobody_knows_has_no_victims():
    """It may have been deleted a moment ago."""
    assert likely_victims(waiting("in", cpu=1), "gone", [running("a", "own", 0)], {}, NOW) == ()
