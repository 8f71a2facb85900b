"""Who takes turns on GPUs, and why others do not: one answer for all who ask."""

import msgspec
import pytest

from specon_manager.model.cluster import Node, Phase
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.slices import memory_of
from support.decisions.gpu_shares import GIB, NOW, job, node, state


def slices_of(*jobs, **changes):
    return state(*jobs, **changes).snapshot(NOW).slices


def short(why):
    return {name.split("/")[1]: reason for name, reason in why.items()}


def test_those_who_asked_share_the_gpus_that_they_have_in_common():
    """Each GPU has its own; who did not ask is in none of it."""
    found = slices_of(job("a", "G1", "G2"), job("b", "G2"), job("c", "G2", share="none"))
    assert short(found.why) == {"a": "", "b": ""}
    assert {place: [each.job for each in here] for place, here in found.places.items()} == {
        "node-1/G1": ["default/a"],
        "node-1/G2": ["default/a", "default/b"],
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unshareable": "the pod has hostPID"}, "hostPID"),
        ({"phase": Phase.STARTING}, "does not run"),
        ({"why": "the trainer's container has processes of another user"}, "another user"),
        ({"on": ("node-2",)}, "does not run"),
    ],
)
def test_who_cannot_says_why(changes, words):
    """And nobody is stopped for it, nor with it."""
    found = slices_of(job("a", "G", **changes), job("b", "G"))
    assert words in short(found.why)["a"]
    assert short(found.why)["b"] == ""
    assert [each.job for each in found.places["node-1/G"]] == ["default/b"]


def test_a_sidecar_of_an_earlier_version_takes_no_turns():
    """It says nothing of shares: nobody would stop its trainer, so nobody counts on that."""
    assert "has not said" in short(slices_of(job("old")).why)["old"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"nvidia.com/gpu.memory": ""}, "has no label nvidia.com/gpu.memory"),
        ({"nvidia.com/gpu.memory": "40Gi"}, "has no label nvidia.com/gpu.memory"),
        ({"nvidia.com/gpu.sharing-strategy": "mps"}, "shared by MPS"),
    ],
)
def test_the_node_has_to_say_what_its_gpus_are(labels, words):
    """How much memory each has; and not that MPS shares them."""
    found = slices_of(job("a", "G"), nodes=(node(**labels),))
    assert words in short(found.why)["a"]
    assert not found.places


def test_who_shares_a_gpu_has_to_fit_its_memory_together():
    """Who is stopped keeps its memory, and so does who cannot be stopped at present."""
    fits = slices_of(job("a", "G", memory=30 * GIB), job("b", "G", memory=10 * GIB))
    assert short(fits.why) == {"a": "", "b": ""}
    asleep = job("c", "G", memory=1 * GIB, why="its sidecar was started again")
    found = slices_of(job("a", "G", memory=30 * GIB), job("b", "G", memory=10 * GIB), asleep, job("d", "H"))
    told = "3 pods need 41984 MiB of node-1/G by their annotations, and it has 40960 MiB"
    assert short(found.why) == {"a": told, "b": told, "c": "its sidecar was started again", "d": ""}


def test_of_those_who_train_as_one_all_take_turns_or_none():
    """Ranks wait for each other: one that cannot be stopped would wait for those that are."""
    nodes = (node("node-1"), node("node-2", **{"nvidia.com/gpu.memory": ""}))
    pair = {"on": ("node-1", "node-2")}
    together = slices_of(job("a", "G", **pair), nodes=nodes)
    assert "trains as one with default/a/worker/1" in together.why["default/a/worker/0"]
    assert not together.places
    apart = slices_of(job("a", "G", coupled=False, **pair), nodes=nodes)
    assert apart.why["default/a/worker/0"] == ""


def test_where_slices_are_off_nobody_takes_turns():
    """The owner of the cluster decides."""
    assert not slices_of(job("a", "G"), settings=Settings()).why


def test_an_absurd_label_is_no_amount():
    """Labels are written by anybody who may write nodes."""
    for written in ("-1", "1e9", "9" * 400, "²"):
        labels = {"nvidia.com/gpu.memory": written}
        assert memory_of(Node(name="n", capacity=Resources(), labels=labels)) is None


@pytest.mark.parametrize(
    ("there", "labels", "fits"),
    [
        ([job("a", "G", memory=30 * GIB)], {}, True),
        ([job("a", "G", memory=31 * GIB)], {}, False),
        ([job("a", "G", memory=15 * GIB), job("b", "H", memory=30 * GIB)], {}, True),
        ([job("a", "G", memory=15 * GIB), job("b", "G", memory=16 * GIB)], {}, False),
        # A GPU whose places are taken gets no further pod.
        ([job("a", "G", memory=39 * GIB)], {"nvidia.com/gpu.replicas": "1"}, True),
        # One that is only starting may be on any of them.
        ([job("a", memory=16 * GIB, phase=Phase.STARTING), job("b", "G", memory=15 * GIB)], {}, False),
        ([job("a", "G", memory=39 * GIB, share="none")], {}, True),
        ([job("a", "G", memory=39 * GIB)], {"nvidia.com/gpu.memory": ""}, True),
    ],
)
def test_nobody_is_sent_where_he_might_not_fit(there, labels, fits):
    """By whichever GPU it might get; policies and the plan ask the same."""
    newcomer = job("new", phase=Phase.PENDING, memory=10 * GIB)
    snapshot = state(newcomer, *there, nodes=(node(**labels),)).snapshot(NOW)
    objection = snapshot.objection_to("node-1", "default/new")
    assert objection is None if fits else "a GPU of node-1 has 40960 MiB, and it might need" in objection


def test_nobody_is_believed_to_have_more_gpus_than_it_requests():
    """Else one pod could have all others of its node stopped; nor does its memory count on theirs."""
    liar, ranks = job("liar", "G", "H", memory=39 * GIB)
    greedy = liar, [msgspec.structs.replace(each, requests=Resources(gpu=1)) for each in ranks]
    found = slices_of(greedy, job("a", "G"), job("b", "H"))
    assert short(found.why) == {"liar": "its sidecar names 2 GPUs, and it requests 1", "a": "", "b": ""}
    assert all(len(here) == 1 for here in found.places.values())


def test_where_more_pods_name_a_gpu_than_may_use_it_nobody_is_stopped():
    """One of them says what is not so, and nobody knows which."""
    three = job("a", "G"), job("b", "G"), job("c", "G")
    found = slices_of(*three, job("d", "H"), nodes=(node(**{"nvidia.com/gpu.replicas": "2"}),))
    told = "3 pods say that they use node-1/G, which 2 may use (nvidia.com/gpu.replicas)"
    assert short(found.why) == {"a": told, "b": told, "c": told, "d": ""}
