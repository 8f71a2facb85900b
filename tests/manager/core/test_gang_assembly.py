"""Every policy admits a held gang as a whole, also those that place one replica after the other."""

import pytest

from specon_manager.core.gang_assembly import gather_gangs
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.actions import Admit, AdmitGang, PlaceJob
from specon_manager.model.cluster import JobSpec
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import Kind
from specon_manager.policies.table import POLICIES

JOB = "default/g"
WORKERS = (f"{JOB}/worker/0", f"{JOB}/worker/1")


def _spec(placed_by="owner", **changes):
    return JobSpec(
        **{
            "name": JOB,
            "replicas": WORKERS,
            "requests": Resources(cpu=1.0),
            "placed_by": placed_by,
            "held": placed_by == "owner",
            "resizing": "restart",
            **changes,
        }
    )


def _state(policy, spec, nodes=2):
    state = State(settings=Settings(policy=policy))
    for number in range(nodes):
        seen = ev.NodeObserved(node=f"node-{number}", capacity=Resources(cpu=1.0), usage=Resources())
        state, _ = step(state, seen, 0.0)
    event = ev.JobObserved(spec) if spec.placed_by == "owner" else ev.JobSubmitted(spec)
    return step(state, event, 1.0)[0]


@pytest.mark.parametrize("policy", sorted(name for name, each in POLICIES.items() if not each.clairvoyant))
def test_a_held_gang_is_admitted_by_one_order(policy):
    """It names both workers, each on a node of its own since no node has room for two."""
    state, actions = step(_state(policy, _spec()), ev.Tick(), 2.0)
    assert [set(each.placement) for each in actions if isinstance(each, PlaceJob)] == [set(WORKERS)]
    assert set(actions[0].placement.values()) == {"node-0", "node-1"}
    assert state.whole_transaction_of(JOB).kind is Kind.ADMIT


@pytest.mark.parametrize("policy", sorted(name for name, each in POLICIES.items() if not each.clairvoyant))
def test_a_held_gang_of_which_a_part_has_no_room_waits(policy):
    """Nothing is ordered for any of its replicas."""
    state, actions = step(_state(policy, _spec(), nodes=1), ev.Tick(), 2.0)
    assert (actions, state.transactions) == ([], {})


def _admits(*replicas):
    return [Admit(replica=name, node="node-0", reason="room") for name in replicas]


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        (_spec(), [AdmitGang]),
        (_spec("manager"), [AdmitGang]),
        (_spec("manager", resizing="at-once"), [Admit, Admit]),
        (_spec(replicas=WORKERS[:1]), [Admit]),
    ],
    ids=["held by its owner", "restarts as a whole", "worker by worker", "one replica"],
)
def test_only_jobs_that_are_changed_as_a_whole_are_put_together(spec, kinds):
    """The others start replica by replica, as they always did."""
    snapshot = _state("round-robin", spec).snapshot(2.0)
    found = list(gather_gangs(_admits(*spec.replicas), snapshot))
    assert [type(each) for each in found] == kinds


def test_a_replica_that_nobody_knows_is_passed_on():
    """The plan says what is wrong with it."""
    snapshot = _state("round-robin", _spec()).snapshot(2.0)
    assert list(gather_gangs(_admits("default/x/worker/0"), snapshot)) == _admits("default/x/worker/0")
