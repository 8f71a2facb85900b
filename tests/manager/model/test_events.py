"""Events and states as the journal keeps them."""

import msgspec
import pytest

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.model.cluster import JobSpec
from specon_manager.model.constraints import NAME, Constraints, Requirement, Taint, Toleration
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Budgets, Deadlines, Gate, Settings
from specon_manager.policies.table import POLICIES
from specon_sidecar.classify import Category
from specon_sidecar.wire import Acknowledgement, Report

A = "default/a/worker/0"
REPORT = Report(schema=1, replica=A, incarnation="0001", session="s", sequence=1, category=Category.CONVERGED)
ANSWER = Acknowledgement(schema=1, replica=A, incarnation="0001", id="move-1", done=False, reason="no")
SPEC = JobSpec(name="default/a", replicas=(A,), template={"command": ["train"], "n": 1, "deep": {"x": None}})
OWNED = JobSpec(
    name="default/b",
    replicas=("default/b/worker/0",),
    placed_by="owner",
    immovable="its checkpoints are on an emptyDir",
    constraints=Constraints(
        selector=(("disk", "ssd"),),
        terms=((Requirement(key="zone", operator="In", values=("a", "b")),), ()),
        volumes=(((Requirement(key=NAME, operator="In", values=("node-0",)),),),),
        tolerations=(Toleration(key="gpu", operator="Exists"),),
    ),
)
EVENTS = (
    ev.ManagerStarted("host/1", Settings(policy="specon", parameters={"literal": True})),
    ev.Tick(),
    ev.NodeObserved(node="node-0", capacity=Resources(cpu=1), usage=Resources(), ready=False),
    ev.NodeObserved(
        node="node-0",
        capacity=Resources(cpu=1),
        usage=Resources(),
        labels={"zone": "a"},
        taints=(Taint(key="gpu", value="yes", effect="NoExecute"),),
    ),
    ev.NodeGone(node="node-0"),
    ev.JobSubmitted(SPEC),
    ev.JobObserved(OWNED),
    ev.JobGone(job="default/a", reason="deleted"),
    ev.EvictionRefused(replica=A, incarnation="0001", reason="budget"),
    ev.MoveRequested(id="default/by-hand", replica=A, reason="because"),
    ev.MoveRequested(id="default/by-hand", replica=A, target="node-0"),
    ev.JobRefused(job="default/j", transaction="preempt-1", reason="it cannot be suspended"),
    ev.QueuesObserved(queues=(Queue(name="a", quota=Resources(cpu=4)),)),
    ev.Paused(reason="the storage is serviced"),
    ev.Paused(reason=None),
    ev.ReplicaStarted(replica=A, incarnation="0001", node="node-0"),
    ev.ReplicaWarned(replica=A, incarnation="0001", why="its device has a taint", leaves_at=3.0),
    ev.StartRefused(replica=A, start=1, reason="no"),
    ev.ReplicaGone(replica=A, incarnation=None),
    ev.ReportReceived(REPORT),
    ev.InstructionDelivered(id="move-1", replica=A, incarnation="0001"),
    ev.InstructionAcknowledged(ANSWER),
    ev.RoomHeld(transaction="move-1", replica=A),
    ev.RoomRefused(transaction="move-1", replica=A, reason="full"),
    ev.OrderExpired(transaction="move-1"),
    ev.SidecarMissing(transaction="move-1", replica=A, count=1),
    ev.RequestWithdrawn(id="default/by-hand", reason="because"),
    ev.SaveRequested(id="default/kueue", replica="default/a/worker/0", reason="Kueue is about to preempt it"),
)


def test_every_kind_of_event_has_an_example():
    """A new kind of event must be shown to survive the journal."""
    assert {type(event) for event in EVENTS} == set(ev.Event.__args__)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_survives_the_journal(event):
    """An event that is read again is the event that was written."""
    assert msgspec.json.decode(msgspec.json.encode(event), type=ev.Event) == event


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), -1.0])
@pytest.mark.parametrize(
    "kind", [Budgets, Gate, Deadlines, Settings, JobSpec, *(p.settings for p in POLICIES.values())]
)
def test_what_json_cannot_say_is_refused_before_it_is_written(kind, number):
    """JSON knows no infinity: a journal that held one could not be read again."""
    required = {"name": "default/a", "replicas": [A]} if kind is JobSpec else {}
    for field in msgspec.structs.fields(kind):
        if isinstance(field.default, float):
            with pytest.raises(msgspec.ValidationError, match=field.name):
                msgspec.convert({**required, field.name: number}, kind)


def test_a_state_that_is_written_is_a_state_that_is_read():
    """The first line of a journal holds a whole state, the empty one too."""
    assert msgspec.json.decode(msgspec.json.encode(State()), type=State) == State()


@pytest.mark.parametrize("name", ["a", "a/", "/a", "A/b", "a/b/c", "a/b\n", "a/-b", ""])
def test_a_job_is_named_by_namespace_and_name(name):
    """Names go into paths and labels: nothing else passes."""
    with pytest.raises(msgspec.ValidationError, match="name"):
        msgspec.convert({"name": name, "replicas": []}, JobSpec)
