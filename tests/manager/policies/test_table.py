"""The table of policies and their settings."""

import msgspec
import pytest

from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.policies.specon import SpeConSettings
from specon_manager.policies.table import POLICIES, policy_named, settings_of
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.gangs import gang


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_found_by_its_name_and_has_defaults(name):
    """A policy can be chosen without a single parameter."""
    policy = policy_named(name)
    assert policy.name == name
    assert policy.summary
    assert settings_of(policy, {}) == policy.settings()


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_admits_a_gang_whose_leader_asks_for_more(name):
    """Where so many of the largest would have no room; a node that were overfilled would be told at once."""
    settings = msgspec.structs.replace(SETTINGS, policy=name, parameters={})
    cluster = Cluster(nodes=2, cpus=3.0, settings=settings)
    spec = gang("j", 4, ps=0, lead=3.0, cpu=1.0, resizing="none")
    cluster.post(ev.JobSubmitted(msgspec.structs.replace(spec, workers=None)))
    for _ in range(20):
        cluster.tick()
        cluster.carry_out()
    assert {each.phase for each in cluster.state.replicas.values()} == {Phase.RUNNING}
    assert sum(each.requests.cpu for each in cluster.state.replicas.values()) == 6.0


def test_an_unknown_policy_is_an_error_that_names_the_known_ones():
    """A typing mistake is mended without the manual."""
    with pytest.raises(ValueError, match=r"policy: 'specom' is not one of default-scheduler, .*, specon"):
        policy_named("specom")


def test_parameters_become_typed_settings():
    """What is not given keeps its default."""
    settings = settings_of(policy_named("specon"), {"min_growing": 2, "literal": True})
    assert settings == SpeConSettings(min_growing=2, literal=True)


@pytest.mark.parametrize(
    ("name", "parameters", "named"),
    [
        ("specon", {"min_growing": -1}, "min_growing"),
        ("specon", {"min_growing": "two"}, "min_growing"),
        ("specon", {"watching_weight": 0}, "watching_weight"),
        ("specon", {"watching_weight": float("inf")}, "watching_weight"),
        ("specon", {"weight": 1}, "weight"),
        ("round-robin", {"literal": True}, "literal"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_policy(name, parameters, named):
    """Wrong values and parameters that are not known are refused, not ignored."""
    with pytest.raises(ValueError, match=rf"parameters of policy {name}: .*{named}"):
        settings_of(policy_named(name), parameters)
