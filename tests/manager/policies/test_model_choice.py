"""On which model of accelerators a job starts where its kind was measured on several."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.actions import StartReplica
from specon_manager.model.constraints import Constraints
from specon_manager.model.paces import ENOUGH, KindPaces, Pace
from support.decisions.models import cluster_of, job, on


def known(cluster, **kinds):
    """Let paces be measured, seconds per step by setup, for each kind."""
    paces = {
        kind: KindPaces(
            paces=tuple(Pace(setup=setup, seconds=pace, samples=ENOUGH) for setup, pace in measured.items())
        )
        for kind, measured in kinds.items()
    }
    cluster.state = msgspec.structs.replace(cluster.state, setup_paces=paces)


def starts(cluster, *specs):
    """Submit the jobs; return the model that each gets at the next Tick, by name, each of one model."""
    for spec in specs:
        cluster.post(ev.JobSubmitted(spec))
    found = {}
    for each in cluster.tick():
        if isinstance(each, StartReplica):
            model = cluster.state.nodes[each.node].accelerator
            assert found.setdefault(each.replica.split("/")[1], model) == model
    return found


def cluster(*models, **settings):
    return cluster_of(*models, policy="progress", defragment="off", **settings)


QUICK = {on("K80"): 4.0, on("V100"): 1.0}


def test_a_job_starts_on_the_model_on_which_its_kind_is_fastest():
    """Else on the first node, and so does a kind that was measured on one model alone, or as fast on both."""
    for paces, model in (
        (QUICK, "V100"),
        ({on("K80"): 1.0, on("V100"): 4.0}, "K80"),
        ({on("V100"): 1.0}, "K80"),
        ({on("K80"): 1.0, on("V100"): 1.0}, "K80"),
        ({on("K80", workers=2): 4.0, on("V100", workers=2): 1.0}, "K80"),
        ({on("K80"): 4.0, on(""): 1.0}, "K80"),
    ):
        world = cluster("K80", "V100", "")
        known(world, vae=paces)
        assert starts(world, job("a")) == {"a": model}


def test_its_reason_says_so():
    """In what was decided about the job."""
    world = cluster("K80", "V100")
    known(world, vae=QUICK)
    starts(world, job("a"))
    (decision,) = world.state.decisions
    assert decision.reason.endswith(
        "on node-1, with V100: none with room was measured to be faster for its kind"
    )


@pytest.mark.parametrize(
    "spec",
    [
        job("a", gpu=0.0),
        job("a", kind="another"),
        msgspec.structs.replace(
            job("a"), constraints=Constraints(selector=(("nvidia.com/gpu.product", "K80"),))
        ),
    ],
    ids=["without a GPU", "of another kind", "where it may not"],
)
def test_others_start_as_before(spec):
    """On the first node that they fit on and may have."""
    world = cluster("K80", "V100")
    known(world, vae=QUICK)
    assert starts(world, spec) == {"a": "K80"}


def test_where_the_fastest_is_full_a_model_that_was_not_measured_comes_first():
    """So it is found out; then the others by their pace."""
    for models, model in ((["K80", "P100"], "P100"), (["K80", "M40"], "M40"), (["K80"], "K80")):
        world = cluster(*models)
        known(world, vae={**QUICK, on("M40"): 2.0})
        assert starts(world, job("a")) == {"a": model}


def test_a_gang_starts_on_the_fastest_model_that_holds_it():
    """All of it, also where that takes more nodes."""
    world = cluster("K80", "V100", "V100", gpus=2.0)
    known(world, vae={on("K80", workers=4, nodes=2): 4.0, on("V100", workers=4, nodes=2): 1.0})
    assert starts(world, job("a", 4)) == {"a": "V100"}
    world = cluster("K80", "K80", "V100")
    known(world, vae={on("K80", workers=4, nodes=2): 4.0, on("V100", workers=4, nodes=2): 1.0})
    assert starts(world, job("a", 4)) == {"a": "K80"}


LITTLE = {on("K80"): 1.2, on("V100"): 1.0}


@pytest.mark.parametrize(
    ("first", "second", "gpus", "queue", "expected"),
    [
        (LITTLE, QUICK, 1.0, "", {"a": "K80", "b": "V100"}),
        (QUICK, LITTLE, 1.0, "", {"a": "V100", "b": "K80"}),
        (LITTLE, LITTLE, 1.0, "", {"a": "V100", "b": "K80"}),
        (LITTLE, QUICK, 2.0, "", {"a": "V100", "b": "V100"}),
        (LITTLE, {}, 1.0, "", {"a": "V100", "b": "K80"}),
        (LITTLE, QUICK, 1.0, "other", {"a": "V100", "b": "K80"}),
    ],
    ids=["the next gains more", "less", "as much", "room for both", "not measured", "of another queue"],
)
def test_a_job_leaves_the_fast_model_to_the_next_that_gains_more(first, second, gpus, queue, expected):
    """Of the same queue, and where only one of them has room there."""
    world = cluster("K80", "V100", gpus=gpus)
    known(world, little=first, much=second)
    specs = job("a", kind="little"), msgspec.structs.replace(job("b", kind="much"), queue=queue)
    assert starts(world, *specs) == expected


def test_nobody_leaves_the_fast_model_free_without_room_elsewhere():
    """A job that would have to wait for it takes it."""
    world = cluster("V100", gpus=1.0)
    known(world, little=LITTLE, much=QUICK)
    assert starts(world, job("a", kind="little"), job("b", kind="much")) == {"a": "V100"}
