"""When a waiting job may start: bounded, whatever the state."""

import msgspec

from specon_lab.forecasts.start import expected_start
from specon_manager.model.settings import Settings
from support.decisions.changed_jobs import NOW, elastic, nodes
from support.decisions.gangs import gang, with_gang


def test_a_forecast_is_bounded_and_breaks_nothing():
    """Too long, a state that cannot be simulated, a job that never fits: each is said."""
    state = with_gang(nodes(), elastic("w"), {})
    assert expected_start(state, NOW, "default/w").in_seconds is not None
    late = expected_start(state, NOW, "default/w", seconds=-1.0)
    assert (late.in_seconds, late.why) == (None, "the simulation was not over after -1 s")
    empty = msgspec.structs.replace(state, nodes={})
    assert expected_start(empty, NOW, "default/w").why == "nodes: there is none that is ready"
    large = with_gang(nodes(), gang("w", 1, ps=0, cpu=64.0), {})
    assert expected_start(large, NOW, "default/w").in_seconds is None
    unknown = msgspec.structs.replace(state, settings=Settings(policy="nonsense"))
    assert "nonsense" in expected_start(unknown, NOW, "default/w").why


def test_owned_jobs_are_forecast_as_the_others():
    """A job that its owner places and that is held waits in the simulation as any other."""
    spec = elastic("w", placed_by="owner", held=True, queue="team")
    start = expected_start(with_gang(nodes(), spec, {}), NOW, "default/w")
    assert start.in_seconds is not None
    assert start.in_seconds < 10
