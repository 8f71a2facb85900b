"""What the owner of a cluster writes about queues, the bound on waiting and dry runs."""

import pytest

from specon_manager.core.given_settings import read_settings
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings


def test_queues_the_bound_and_a_dry_run_are_read():
    """What is not given keeps its default."""
    mistakes: list[str] = []
    given = {
        "queues": [{"name": "a", "quota": {"cpu": 8, "gpu": 1}, "limit": {"cpu": 9, "gpu": 2}}],
        "starvation": 600,
        "dry_run": True,
    }
    settings = read_settings(given, mistakes)
    assert mistakes == []
    expected = Queue(name="a", quota=Resources(cpu=8, gpu=1), limit=Resources(cpu=9, gpu=2))
    assert (settings.queues, settings.starvation, settings.dry_run) == ((expected,), 600.0, True)
    plain = read_settings({}, mistakes)
    assert (plain.queues, plain.starvation, plain.dry_run) == ((), None, False)
    assert read_settings({"starvation": None}, mistakes, defaults=Settings(starvation=5)).starvation is None


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, "off"),
        ({"defragment": "dry-run"}, "dry-run"),
        ({"defragment": True}, "on"),
        ({"defragment": False}, "off"),
    ],
)
def test_whether_room_is_made_may_be_written_without_quotes(given, read):
    """YAML takes the words on and off for truth values."""
    mistakes: list[str] = []
    assert read_settings(given, mistakes).defragment == read
    assert mistakes == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"queues": [{"quota": {"cpu": 1}}]}, "queues: Object missing required field `name`"),
        ({"queues": [{"name": "a", "quota": {"cpu": -1}}]}, "queues: Expected `float` >= 0.0"),
        ({"queues": [{"name": "a", "size": 3}]}, "queues: Object contains unknown field `size`"),
        ({"queues": [{"name": "a"}, {"name": "a"}]}, "queues[1].name: 'a' is given twice"),
        ({"queues": [{"name": ""}]}, "queues[0].name: is empty"),
        (
            {"queues": [{"name": "a", "quota": {"cpu": 4}, "limit": {"cpu": 2}}]},
            "queues[0].limit.cpu: 2 is less than the quota, 4",
        ),
        ({"starvation": 0}, "starvation: Expected `float` > 0.0"),
        ({"starvation": "soon"}, "starvation: Expected `float | null`, not 'soon'"),
        ({"dry_run": "yes"}, "dry_run: Expected `bool`, not 'yes'"),
    ],
)
def test_a_mistake_names_the_field_and_the_value(given, named):
    """Nothing is guessed."""
    mistakes: list[str] = []
    read_settings(given, mistakes)
    assert len(mistakes) == 1
    assert mistakes[0].startswith(named)
