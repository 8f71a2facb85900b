"""Converged replicas give processors to those beside them that grow, as far as their owners allow."""

import msgspec
import pytest

from specon_manager.core.plan import plan
from specon_manager.core.state import State
from specon_manager.model.actions import Migrate, Refusal, Reweight
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate, Settings
from specon_manager.policies.cpu_lending import ease, eases_first
from specon_sidecar.classify import Category

NOW = 100.0


def _job(name, category, *, node="node-1", lowest=0.5, weight=1.0, cpu=2.0, phase=Phase.RUNNING):
    replica = f"default/{name}/worker/0"
    spec = JobSpec(
        name=f"default/{name}",
        replicas=(replica,),
        requests=Resources(cpu=cpu),
        placed_by="owner",
        resizing="none",
        lowest_cpu=lowest,
    )
    record = Replica(
        name=replica,
        job=spec.name,
        requests=spec.requests,
        phase=phase,
        node=node,
        incarnation="1",
        weight=weight,
        progress=Progress(category=category, step=5),
    )
    return Job(spec=spec, order=0, submitted_at=0.0), record


def _state(*jobs, reweight=True):
    nodes = {name: Node(name=name, capacity=Resources(cpu=8.0)) for name in ("node-1", "node-2")}
    return State(
        settings=Settings(reweight=reweight, gate=Gate(enabled=False)),
        nodes=nodes,
        jobs={job.name: job for job, _ in jobs},
        replicas={replica.name: replica for _, replica in jobs},
    )


def _eased(*jobs, reweight=True):
    return [
        (each.replica.split("/")[1], each.weight)
        for each in ease(_state(*jobs, reweight=reweight).snapshot(NOW))
    ]


GROWS = _job("grows", Category.PROGRESSING, lowest=None)


def test_a_converged_replica_beside_a_growing_one_goes_down_to_what_its_owner_allows():
    """0.5 of 2 cores is a quarter."""
    assert _eased(_job("done", Category.CONVERGED), GROWS) == [("done", 0.25)]


@pytest.mark.parametrize(
    "jobs",
    [
        (_job("done", Category.CONVERGED),),
        (_job("done", Category.CONVERGED), _job("too", Category.CONVERGED, lowest=None)),
        (_job("done", Category.CONVERGED, node="node-2"), GROWS),
        (_job("done", Category.CONVERGED, lowest=None), GROWS),
        (_job("done", Category.CONVERGED, lowest=2.0), GROWS),
        (_job("done", Category.CONVERGED, cpu=0.0), GROWS),
        (_job("done", Category.PROGRESSING), GROWS),
        (_job("done", Category.CONVERGED, phase=Phase.STARTING), GROWS),
        (_job("done", Category.CONVERGED, weight=0.25), GROWS),
    ],
    ids=[
        "alone",
        "beside converged ones",
        "on another node",
        "not allowed",
        "allowed no lower",
        "asks for nothing",
        "grows itself",
        "starting",
        "lowered already",
    ],
)
def test_nothing_is_lowered_where_nobody_gains_or_it_is_not_allowed(jobs):
    """Each of these keeps its weight."""
    assert _eased(*jobs) == []


def test_nothing_is_proposed_where_weights_cannot_be_changed():
    """A backend that cannot change them is asked for nothing."""
    assert _eased(_job("done", Category.CONVERGED), GROWS, reweight=False) == []


@pytest.mark.parametrize(
    "jobs",
    [
        (_job("done", Category.PROGRESSING, weight=0.25), GROWS),
        (_job("done", Category.WATCHING, weight=0.25), GROWS),
        (_job("done", Category.CONVERGED, weight=0.25),),
        (_job("done", Category.CONVERGED, weight=0.25), _job("too", Category.CONVERGED, lowest=None)),
    ],
    ids=["grows again", "is watched again", "alone by now", "the others converged too"],
)
def test_a_replica_gets_its_processors_back(jobs):
    """When it grows again, or when nobody beside it grows."""
    assert _eased(*jobs) == [("done", 1.0)]


def test_a_weight_is_lowered_before_a_move_is_thought_of():
    """The move waits for the lower weight, and is judged as any other afterwards."""
    done = _job("done", Category.CONVERGED)
    move = Migrate(replica="default/done/worker/0", target="node-2", purpose="migrate", reason="converged")
    state = _state(done, GROWS)
    lowered = Reweight(replica="default/done/worker/0", weight=0.25, reason="first")
    verdicts = plan(state, [move, lowered], NOW)
    assert [(type(each.proposal), each.objection and each.objection.refusal) for each in verdicts] == [
        (Reweight, None),
        (Migrate, Refusal.COOLDOWN),
    ]
    assert "before a move" in verdicts[1].objection.text
    job, record = done
    after = _state((job, msgspec.structs.replace(record, weight=0.25)), GROWS)
    assert not eases_first(after.replicas["default/done/worker/0"], after.snapshot(NOW))
    assert plan(after, [move], NOW)[0].objection is None
