"""`specon policies`."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct, field

from specon_manager.__main__ import main
from specon_manager.cli.study.policy_parameters import parameters_of
from specon_manager.policies.table import POLICIES, settings_of


class Example(Struct, frozen=True, kw_only=True):
    """Settings of every kind."""

    weight: Annotated[float, Meta(gt=0, le=10)] = 2.0
    """How much it weighs.

    In a second paragraph.
    """
    count: Annotated[int, Meta(ge=1)] | None = None
    order: Literal["first", "last"] = "first"
    shares: Mapping[str, float] = field(default_factory=lambda: {"a": 0.5})
    """By queue."""
    names: tuple[str, ...] = ("x", "y")
    literal: bool = False


class Extended(Example, frozen=True, kw_only=True):
    """Inherits, and adds one."""

    more: float = 1.0
    """Its own."""


def test_parameters_are_read_from_the_settings():
    """Name, values in words, default, and the docstring below the field."""
    found = {each.name: (each.type, each.default, each.meaning) for each in parameters_of(Example)}
    assert found == {
        "weight": ("number, above 0, at most 10", 2.0, "How much it weighs. In a second paragraph."),
        "count": ("integer, at least 1 or null", None, ""),
        "order": ("first | last", "first", ""),
        "shares": ("object of text: number", {"a": 0.5}, "By queue."),
        "names": ("list of text", ("x", "y"), ""),
        "literal": ("true or false", False, ""),
    }


def test_inherited_parameters_come_with_their_meaning():
    """A policy whose settings extend another's shows all of them."""
    found = {each.name: each.meaning for each in parameters_of(Extended)}
    assert found["shares"] == "By queue."
    assert found["more"] == "Its own."


@pytest.mark.parametrize("name", POLICIES)
def test_the_parameters_of_every_policy_are_its_settings(name, capsys):
    """All of them, and the defaults that are shown are those that count."""
    assert main(["policies", name, "--json"]) == 0
    (described,) = json.loads(capsys.readouterr().out)
    policy = POLICIES[name]
    assert described["summary"] == policy.summary
    assert described["clairvoyant"] is policy.clairvoyant
    shown = {each["name"]: each["default"] for each in described["parameters"]}
    assert list(shown) == [each.encode_name for each in msgspec.structs.fields(policy.settings)]
    assert msgspec.to_builtins(settings_of(policy, shown)) == msgspec.to_builtins(policy.settings())


@pytest.mark.parametrize("name", POLICIES)
def test_every_parameter_says_what_it_means(name):
    """Nobody has to read the source."""
    assert [each.name for each in parameters_of(POLICIES[name].settings) if not each.meaning] == []


def test_all_policies_are_listed(capsys):
    """Each with its line, its source and its parameters."""
    assert main(["policies"]) == 0
    shown = capsys.readouterr().out
    for policy in POLICIES.values():
        assert policy.name in shown
    assert "progressing_weight" in shown
    assert "number, above 0" in shown


def test_an_unknown_policy_is_one_sentence(capsys):
    """It names those that there are; exit code 2."""
    assert main(["policies", "specom"]) == 2
    assert "policy: 'specom' is not one of" in capsys.readouterr().err
