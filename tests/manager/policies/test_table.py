"""The table of policies and their settings."""

import pytest

from specon_manager.policies.specon import SpeConSettings
from specon_manager.policies.table import POLICIES, policy_named, settings_of


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_found_by_its_name_and_has_defaults(name):
    """A policy can be chosen without a single parameter."""
    policy = policy_named(name)
    assert policy.name == name
    assert policy.summary
    assert settings_of(policy, {}) == policy.settings()


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
