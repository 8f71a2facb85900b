"""Generators by name: the same seed gives the same, and bad values are named."""

from pathlib import Path

import msgspec
import pytest

from specon_lab.workloads.table import WORKLOADS, workload_named
from specon_lab.workloads.workload import Workload

SMALL = {name: f"{name}:jobs=30" for name in WORKLOADS} | {"dragon-table1": "dragon-table1"}


@pytest.mark.parametrize("name", WORKLOADS)
def test_same_seed_same_workload(name):
    """Two calls with one seed give equal workloads; another seed changes something."""
    first = workload_named(SMALL[name], 3)
    assert workload_named(SMALL[name], 3) == first
    assert workload_named(SMALL[name], 4).jobs != first.jobs


@pytest.mark.parametrize("name", WORKLOADS)
def test_generated_workloads_keep_the_bounds_of_their_records(name):
    """What is generated could have been read from a message: every bound holds, names are unique."""
    workload = workload_named(SMALL[name], 1)
    assert msgspec.convert(msgspec.to_builtins(workload), Workload) == workload
    names = [job.spec.name for job in workload.jobs]
    assert len(set(names)) == len(names)
    assert [job.at for job in workload.jobs] == sorted(job.at for job in workload.jobs)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_worker_fits_on_some_node(name):
    """No generator makes a replica that is larger than every node, or a gang larger than the cluster."""
    workload = workload_named(SMALL[name], 2)
    for job in workload.jobs:
        assert any(job.spec.requests.fits(node.capacity) for node in workload.nodes)
        gpus = job.spec.requests.gpu * job.spec.fewest_workers
        assert gpus <= sum(node.capacity.gpu for node in workload.nodes)


@pytest.mark.parametrize("name", WORKLOADS)
def test_speedup_covers_every_number_of_workers(name):
    """Where a speedup is given it begins with 1, grows, and tells all workers that the job may have."""
    for job in workload_named(SMALL[name], 1).jobs:
        speedup = job.training.speedup
        if len(job.spec.worker_names) > 1:
            assert speedup[0] == 1.0
            assert len(speedup) == len(job.spec.worker_names)
            assert list(speedup) == sorted(speedup)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lottery", "workload: 'lottery' is not one of specon-fixed"),
        ("specon-fixed:jbos=3", "workload specon-fixed: 'jbos' is not one of jobs"),
        ("specon-fixed:jobs", "jobs needs a value"),
        ("specon-fixed:jobs=3,jobs=4", "jobs is given twice"),
        ("specon-fixed:jobs=many", "jobs: expected `int`, not 'many'"),
        ("specon-fixed:jobs=0", "jobs: expected `int` >= 1, not '0'"),
        ("specon-fixed:noise=nan", "noise: expected `float` >= 0.0, not 'nan'"),
        ("specon-fixed:seconds=60/-1", "seconds: expected `float` > 0.0, not '60/-1'"),
        ("kod2:model=vgg", "model: expected one of cnn-rand, vgg-16, resnet-50, resnext-110, not 'vgg'"),
        ("dragon-random:fewest=5,most=2", "workload dragon-random: fewest: 5 is more than most, 2"),
        ("poisson:sizes=0/0", "workload poisson: sizes: all are 0"),
    ],
)
def test_bad_values_are_named(text, words):
    """An error names the workload, the key and the value."""
    with pytest.raises(ValueError, match=r"^workload") as caught:
        workload_named(text, 0)
    assert words in str(caught.value)


def test_values_reach_the_generator():
    """Numbers, lists, truth values and `none` are taken from the text."""
    workload = workload_named("specon-fixed:jobs=3,seconds=60/70,interval=5", 0)
    assert [job.at for job in workload.jobs] == [0.0, 5.0, 10.0]
    assert {job.training.seconds for job in workload.jobs} <= {60.0, 70.0}
    dragon = workload_named("dragon-table1:quota=1,scale_in_seconds=none", 0)
    assert dragon.jobs[0].training.network.fixed_quota
    assert dragon.jobs[0].training.scale_in_seconds is None


def test_docs_name_every_workload():
    """docs/simulate.md lists each generator."""
    text = (Path(__file__).parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")
    assert [name for name in WORKLOADS if f"`{name}`" not in text] == []
