"""Whether pods train as one: what their user says, what their kind is, what hints at it."""

import pytest

from specon_manager.backends.kube.objects.annotation_mistakes import AnnotationError
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.objects.annotations import Options
from specon_manager.backends.kube.objects.coupling import coupling, hint_in
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from support.kube.job_objects import job_object
from support.kube.stage import template

KINDS = sorted(OWNER_RESOURCES)


def _container(**fields):
    return {"containers": [{"name": "main", **fields}]}


@pytest.mark.parametrize(
    ("pod", "service", "words"),
    [
        (_container(), None, ""),
        (_container(command=["python", "train.py", "--seed=$(JOB_COMPLETION_INDEX)"]), None, ""),
        (_container(args=["--address-padding", "wddpx"]), None, ""),
        (_container(), "train", "serviceName: train"),
        ({"subdomain": "train", **_container()}, None, "subdomain: train"),
        (_container(env=[{"name": "MASTER_ADDR", "value": "train-0"}]), None, "the variable MASTER_ADDR"),
        (_container(env=[{"name": "RANK"}]), None, "the variable RANK"),
        (_container(env=[{"name": "NCCL_DEBUG"}]), None, "the variable NCCL_DEBUG"),
        (_container(env=[{"name": "SEED"}, {"name": "FRANK"}]), None, ""),
        (_container(envFrom=[{"configMapRef": {"name": "x"}}]), None, "envFrom"),
        (_container(command=["torchrun", "--nproc=8"]), None, "torchrun in the command"),
        (_container(command=["sh", "-c", "exec accelerate launch t.py"]), None, "accelerate in the command"),
        (_container(args=["python", "-m", "torch.distributed.run"]), None, "torch.distributed in the args"),
        (_container(args=["--num-nodes=4"]), None, "num-nodes in the args"),
        (_container(args=["mpirun -np 4"]), None, "mpirun"),
        (_container(command=["x" * 20_000]), None, "too long"),
        ({"containers": "nonsense", "initContainers": [{"env": 3}]}, 7, ""),
    ],
)
def test_what_hints_at_one_training_is_named(pod, service, words):
    hint = hint_in(pod, service)
    assert words in hint
    assert bool(words) == bool(hint)


@pytest.mark.parametrize("kind", KINDS)
def test_what_its_user_says_counts_more_than_any_hint(kind):
    for said in ("coupled", "independent"):
        found = coupling(kind, Options(replicas=said), several=True, hint="" if said == "coupled" else "RANK")
        assert (found.coupled, found.why) == (
            said == "coupled",
            f"its annotation specon.io/replicas says {said}",
        )


@pytest.mark.parametrize("kind", KINDS)
def test_pods_that_a_kind_makes_together_train_as_one_and_others_where_something_hints_at_it(kind):
    together = kind not in {"Job", "StatefulSet"}
    assert coupling(kind, Options(), several=True, hint="").coupled is together
    assert coupling(kind, Options(), several=True, hint="RANK").coupled
    assert not coupling(kind, Options(), several=False, hint="RANK").coupled


@pytest.mark.parametrize("options", [Options(queue="team"), Options(min_workers=1), Options(max_workers=8)])
def test_an_indexed_job_that_is_admitted_or_scaled_as_one_trains_as_one(options):
    assert coupling("Job", options, several=True, hint="").coupled


@pytest.mark.parametrize("kind", sorted({*OWNER_RESOURCES} - {"TrainJob"}))
def test_an_owner_is_judged_by_its_template(kind):
    pods = template()
    pods["spec"]["containers"][0]["env"] = [{"name": "WORLD_SIZE", "value": "4"}]
    found = OWNER_RESOURCES[kind][1](job_object(kind, 4, annotations={}, pods=pods)).coupling()
    assert found.coupled
    assert found.why
    said = template({"specon.io/replicas": "independent"})
    alone = OWNER_RESOURCES[kind][1](job_object(kind, 4, pods=said))
    options = read_options({"specon.io/replicas": "independent"})
    assert not alone.coupling(options).coupled


def test_a_stateful_set_whose_pods_a_service_names_trains_as_one():
    owner = OWNER_RESOURCES["StatefulSet"][1](job_object("StatefulSet", 3, serviceName="train"))
    assert owner.coupling().why == "serviceName: train hints at one training"


@pytest.mark.parametrize(
    ("annotations", "mistake"),
    [
        ({"replicas": "both"}, "specon.io/replicas: 'both'"),
        ({"savers": "some"}, "specon.io/savers: 'some'"),
        ({"savers": "all", "replicas": "independent"}, "specon.io/savers: all is for pods that train as one"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(annotations, mistake):
    with pytest.raises(AnnotationError) as found:
        read_options({f"specon.io/{name}": value for name, value in annotations.items()})
    assert mistake in str(found.value)
