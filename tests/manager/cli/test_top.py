"""`specon top`: which lines it has, in which order, and what stands above them."""

import io

import msgspec
import pytest
from rich.console import Console

from specon_manager.cli.remote.remote import View, rows_of
from specon_manager.cli.top_rows import KEYS, top_of
from specon_manager.cli.top_table import heading, table
from specon_manager.core.state import Pause
from specon_manager.model.cluster import Phase
from specon_manager.model.moves import MoveState
from specon_sidecar.classify import Category

NOW = 1100.0


def view_of(scene, **changes):
    state = msgspec.structs.replace(scene.state, **changes)
    return View(state=state, now=NOW, moves=rows_of(state))


def order(scene, sort, **options):
    """Return the jobs in the order of the lines."""
    top = top_of(view_of(scene), where="here", sort=sort, **options)
    return [row.job.removeprefix("default/") for row in top.replicas]


@pytest.fixture
def three(scene):
    """Run three jobs: a diverges, b converged, c has said nothing yet."""
    told = (
        ("a", {"category": Category.DIVERGING, "value": 2.0, "step": 10, "gain": 0.5}),
        ("b", {"category": Category.CONVERGED, "value": 0.5, "step": 90, "gain": 0.001}),
        ("c", {"category": Category.UNKNOWN, "metric": None}),
    )
    for at, (name, progress) in enumerate(told):
        scene.running(scene.job(f"default/{name}", at=at), f"node-{at % 2}", **progress)
    return scene


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("category", "abc"),
        ("name", "abc"),
        ("loss", "abc"),
        ("gain", "abc"),
        ("step", "bac"),
        ("node", "acb"),
        ("age", "abc"),
    ],
)
def test_lines_are_ordered_by_what_is_asked_for(three, sort, expected):
    """Numbers the largest first, words by the alphabet, what may want attention before what does not."""
    assert order(three, sort) == list(expected)


def test_lines_without_the_number_come_last_in_either_direction(three):
    """Who has no loss yet is not the best one."""
    assert order(three, "loss", reverse=True) == ["b", "a", "c"]


def test_every_order_is_a_choice_and_ends_in_the_name(scene):
    """Equals stand by name, so that lines do not jump."""
    for name in ("b", "a", "c"):
        scene.running(scene.job(f"default/{name}"))
    assert all(order(scene, key) == ["a", "b", "c"] for key in KEYS)


def test_what_has_ended_is_shown_where_it_is_asked_for(three):
    """And counted nowhere else."""
    three.end("default/b/worker/0", at=50.0)
    assert order(three, "name") == ["a", "c"]
    assert order(three, "name", ended=True) == ["a", "b", "c"]


def test_lines_beyond_the_most_are_counted(three):
    """No line goes without a word."""
    top = top_of(view_of(three), where="here", most=1)
    assert (len(top.replicas), top.left_out) == (1, 2)
    assert "and 2 more" in printed(table(top))


def test_the_numbers_of_a_line(three):
    """As programs get them, times in ISO 8601."""
    three.move("default/b/worker/0", MoveState.CHECKPOINTING)
    (row,) = (row for row in top_of(view_of(three), where="here").replicas if row.job == "default/b")
    assert (row.loss, row.gain, row.step, row.age_seconds) == (0.5, 0.001, 90, 99.0)
    assert (row.move, row.move_to, row.node) == ("Checkpointing", "node-1", "node-1")
    shown = printed(table(top_of(view_of(three), where="here")))
    assert "-> node-1 Checkpointing" in shown
    assert "0.5000" in shown


def test_a_pause_stands_above_everything(three):
    """With its reason, its begin, and how it ends."""
    pause = Pause(since=1000.0, reason="maintenance")
    top = top_of(view_of(three, pause=pause), where="here")
    lines = [str(line) for line in heading(top, sort="loss", reverse=True)]
    assert "PAUSED since 1970-01-01T00:16:40.000Z: maintenance; specon resume ends it" in lines
    assert "by loss reversed" in lines[1]
    assert "1 diverging, 1 converged, 1 unknown" in lines[1]


def test_no_name_steers_the_terminal(scene):
    """Control characters in notes and nodes are not printed."""
    name = scene.job()
    scene.running(name, "node-\x1b[31m0")
    scene.replica(name, crashes=1, note="bell\x07")
    shown = printed(table(top_of(view_of(scene), where="here")))
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "1 crash" in shown


def test_phases_that_are_no_category(scene):
    """A replica that does not run shows its phase, and no node that it only had."""
    name = scene.job()
    scene.replica(name, phase=Phase.PENDING, node="node-0")
    (row,) = top_of(view_of(scene), where="here").replicas
    assert (row.phase, row.node) == ("Pending", None)
    assert "pending" in printed(table(top_of(view_of(scene), where="here")))


def printed(shown):
    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text()
