"""A queue as its TrainingQueue has it."""

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fakekube.schemas import Definition
from specon_manager.backends.kube.objects.quantities import quantity
from specon_manager.backends.kube.queues.record import format_amount, queue_info, queue_status
from specon_manager.core.queue_use import QueueUse, uses_of
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Phase, Replica
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from support.packaging.helm import CHART

GIB = 2.0**30
DEFINITION = Definition(yaml.safe_load((CHART / "crds" / "trainingqueues.yaml").read_text()))
QUOTA = {"cpu": "8", "memory": "64Gi"}


def item(name="team-a", **spec):
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec}


def read(**spec):
    info = queue_info(item(**spec))
    return info.queue, list(info.problems)


def refused(**spec):
    """Return what the API server says against such an object."""
    _, causes = DEFINITION(None, item(**spec))
    return [field for _, _, field in causes]


def test_quantities_are_numbers():
    """As Kubernetes writes them; GPUs that are not named are none."""
    assert read(quota={"cpu": "500m", "memory": "64Gi"}) == (
        Queue(name="team-a", quota=Resources(cpu=0.5, memory=64 * GIB)),
        [],
    )
    queue, problems = read(quota={"cpu": 8, "memory": 10**9, "gpu": 2}, borrow=False)
    assert queue == Queue(name="team-a", quota=Resources(cpu=8, memory=1e9, gpu=2), borrow=False)
    assert not problems


def test_what_a_limit_does_not_name_is_not_limited():
    """Nobody means by a limit on processors that there be no memory."""
    queue, problems = read(quota=QUOTA, limit={"cpu": "10"})
    assert queue.limit == Resources(cpu=10, memory=1e15, gpu=1e15)
    assert not problems


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"quota": {**QUOTA, "cpu": "many"}}, "spec.quota.cpu: 'many' is no quantity"),
        ({"quota": {**QUOTA, "cpu": "-1"}}, "spec.quota.cpu: '-1' is negative"),
        ({"quota": {**QUOTA, "gpu": -1}}, "spec.quota.gpu: -1 is negative"),
        ({"quota": {**QUOTA, "memory": True}}, "spec.quota.memory: True is no quantity"),
        ({"quota": {"memory": "1Gi"}}, "spec.quota.cpu: is missing"),
        ({"quota": QUOTA, "limit": {"cpu": "1 000"}}, "spec.limit.cpu: '1 000' is no quantity"),
        ({"quota": QUOTA, "limit": [1]}, "spec.limit: [1] is no list of amounts"),
        ({"quota": QUOTA, "borrow": "yes"}, "spec.borrow: 'yes' is neither true nor false"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_value(spec, problem):
    """The server refuses it as well; here it counts as the least that could be meant."""
    queue, problems = read(**spec)
    assert problems == [problem]
    assert queue.borrow is not True or "borrow" not in problem
    (field,) = refused(**spec)
    assert problem.startswith(field)


@pytest.mark.parametrize(
    "amount", ["0", "8", "2.5", ".5", "1e3", "500m", "64Gi", "1k", "3E", 0, 12, "+1", "1.", "1E5"]
)
def test_what_the_server_takes_is_a_quantity(amount):
    """More than can be counted is as much as can be."""
    spec = {"quota": {"cpu": amount, "memory": amount, "gpu": amount}}
    assert not refused(**spec)
    queue, problems = read(**spec)
    assert not problems
    assert queue.quota.cpu == min(quantity(str(amount)), 1e15)


def test_a_name_that_no_annotation_could_have_is_refused():
    """Longer than a label."""
    _, causes = DEFINITION(None, item("x" * 64, quota=QUOTA))
    assert "at most 63 characters" in causes[0][1]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["quota", "limit", "borrow", "cpu", "memory", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(json, json)
def test_nonsense_is_a_queue_with_what_is_left(metadata, spec):
    """It raises nothing, and what it makes can be written down."""
    info = queue_info({"metadata": metadata, "spec": spec})
    again = msgspec.convert(msgspec.to_builtins(info.queue), Queue)
    assert again == info.queue


@given(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 10**12))
def test_what_is_written_is_the_same_amount(name, thousandths):
    """Read by the rules of Kubernetes."""
    amount = thousandths / 1000 if name == "cpu" else float(thousandths)
    assert quantity(format_amount(name, amount)) == pytest.approx(amount)


def test_amounts_are_written_as_people_write_them():
    """Whole processors, parts of them in thousandths, memory in the largest unit that divides it."""
    assert [format_amount("cpu", 8.0), format_amount("cpu", 7.5), format_amount("gpu", 2.0)] == [
        "8",
        "7500m",
        "2",
    ]
    assert [
        format_amount("memory", 64 * GIB),
        format_amount("memory", GIB / 2),
        format_amount("memory", 1e9),
    ] == [
        "64Gi",
        "512Mi",
        "1000000000",
    ]


def job(name, *phases, queue="team-a", requests=Resources(cpu=1, memory=GIB)):  # noqa: B008  (never changed)
    replicas = [
        Replica(
            name=f"{name}/worker/{index}",
            job=name,
            role="worker",
            index=index,
            requests=requests,
            phase=phase,
            node="n1" if phase in {Phase.RUNNING, Phase.STARTING} else None,
        )
        for index, phase in enumerate(phases)
    ]
    spec = JobSpec(name=name, replicas=tuple(each.name for each in replicas), queue=queue)
    return Job(spec=spec, submitted_at=0.0, order=0), replicas


def state_of(*made, queues=("team-a", "team-b")):
    return State(
        jobs={each.name: each for each, _ in made},
        replicas={replica.name: replica for _, replicas in made for replica in replicas},
        queues={name: Queue(name=name) for name in queues},
    )


def test_the_use_of_a_queue_is_what_its_jobs_request():
    """Jobs that run or are about to run count with their requests; the other jobs are only counted."""
    state = state_of(
        job("ml/a", Phase.RUNNING, Phase.STARTING),
        job("ml/b", Phase.PENDING, Phase.PENDING),
        job("ml/c", Phase.RUNNING, queue="team-b"),
        job("ml/d", Phase.RUNNING, queue=""),
        job("ml/e", Phase.RUNNING, queue="nobody's"),
    )
    assert uses_of(state) == {
        "": QueueUse(running=1, used=Resources(cpu=1, memory=GIB)),
        "nobody's": QueueUse(running=1, used=Resources(cpu=1, memory=GIB)),
        "team-a": QueueUse(running=1, waiting=1, used=Resources(cpu=2, memory=2 * GIB)),
        "team-b": QueueUse(running=1, used=Resources(cpu=1, memory=GIB)),
    }


def test_a_status_is_what_the_definition_takes():
    """With and without a message, which goes away again."""
    use = QueueUse(running=1, waiting=2, used=Resources(cpu=2.5, memory=GIB))
    said = queue_status(use, "", "manager-1")
    assert said == {
        "running": 1,
        "waiting": 2,
        "use": {"cpu": "2500m", "memory": "1Gi", "gpu": "0"},
        "share": "",
        "message": None,
        "manager": "manager-1",
    }
    told = queue_status(use, "x" * 5000, "m" * 300)
    after = {**item(quota=QUOTA), "status": {**told, "updatedAt": "2026-01-01T00:00:00Z"}}
    kept, causes = DEFINITION(None, after)
    assert not causes
    assert kept["status"] == after["status"]


def test_a_queue_without_rules_takes_everybodys_jobs():
    """What was made before there were rules goes on as it was."""
    queue, _ = read(quota=QUOTA)
    assert (queue.namespaces, queue.allow_trials, queue.max_utility) == (None, True, None)


def test_whose_jobs_a_queue_takes_is_read():
    """Which namespaces a selector means is for the watch to say: nobody's, until they were seen."""
    info = queue_info(
        item(quota=QUOTA, namespaceSelector={"matchLabels": {"t": "a"}}, allowTrials=False, maxUtility=5)
    )
    assert info.selector == {"matchLabels": {"t": "a"}}
    assert (info.queue.namespaces, info.queue.allow_trials, info.queue.max_utility) == ((), False, 5.0)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"namespaceSelector": "team-a"}, "spec.namespaceSelector: 'team-a' is no selector of labels"),
        ({"allowTrials": "no"}, "spec.allowTrials: 'no' is neither true nor false"),
        ({"maxUtility": -1}, "spec.maxUtility: -1 is no number from 0 to 1e+15"),
        ({"maxUtility": True}, "spec.maxUtility: True is no number from 0 to 1e+15"),
    ],
)
def test_rules_that_cannot_be_read_let_nobody_in(spec, problem):
    """A queue is closed to whom its garbage might have meant; the API server refuses it too."""
    queue, problems = read(quota=QUOTA, **spec)
    assert problems == [problem]
    assert queue.namespaces == () or not queue.allow_trials or queue.max_utility == 0
    assert refused(quota=QUOTA, **spec)
