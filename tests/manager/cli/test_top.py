"""`specon top`: which lines it has, in which order, and what stands above them."""

import io

import msgspec
import pytest
from rich.console import Console

from specon_manager.cli.act.drain import Drained, Stays, _summary
from specon_manager.cli.look.top_table import heading, table
from specon_manager.core.state import Pause
from specon_manager.model.cluster import Phase
from specon_manager.model.settings import Settings
from specon_manager.model.transactions import TransactionState
from specon_manager.views.first_look import FirstLook, describe_look
from specon_manager.views.queues import waiting_rows
from specon_manager.views.replicas import KEYS, top_of
from specon_manager.views.transactions import rows_of
from specon_manager.views.view import View
from specon_sidecar.classify import Category
from support.decisions.changed_jobs import NOW as CHANGED_AT
from support.decisions.changed_jobs import changing

NOW = 1100.0


def view_of(scene, **changes):
    state = msgspec.structs.replace(scene.state, **changes)
    return View(state=state, now=NOW, transactions=rows_of(state))


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


def test_what_ended_is_counted_where_it_is_not_listed(three):
    """A job that failed does not vanish without a word."""
    three.replica(three.job("default/d"), phase=Phase.FAILED)
    three.replica("default/b/worker/0", phase=Phase.SUCCEEDED)
    top = top_of(view_of(three), where="here")
    assert top.ended == {"Failed": 1, "Succeeded": 1}
    line = "ended: 1 failed, 1 succeeded; --ended lists them"
    assert line in [str(each) for each in heading(top, sort="name", reverse=False)]
    top = top_of(view_of(three), where="here", ended=True)
    assert line not in [str(each) for each in heading(top, sort="name", reverse=False)]


def test_the_numbers_of_a_line(three):
    """As programs get them, times in ISO 8601."""
    three.move("default/b/worker/0", TransactionState.CHECKPOINTING)
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


def test_a_long_reason_is_cut_and_no_figure(three):
    """In a pipe, which is 80 characters wide: of a replica that does not run."""
    three.replica("default/a/worker/0", phase=Phase.PENDING, note="migrate: " + "it had converged " * 20)
    whole = printed(table(top_of(view_of(three), where="here")), width=400)
    shown = printed(table(top_of(view_of(three), where="here")), width=80)
    assert len(shown.splitlines()) == len(whole.splitlines()) == 4
    for line, before in zip(shown.splitlines(), whole.splitlines(), strict=True):
        assert line.split()[:8] == before.split()[:8]
    assert "migrate:" in shown
    assert "…" in shown


@pytest.mark.parametrize(
    ("width", "gone"),
    [(140, set()), (80, {"HEARD", "AGE"}), (60, {"HEARD", "AGE", "GAIN %", "MOVES"}), (20, None)],
)
def test_a_narrow_terminal_leaves_columns_out_for_what_is_done(three, width, gone):
    """A move in flight says more than an age; a terminal without room for either raises nothing."""
    three.move("default/a/worker/0", TransactionState.CHECKPOINTING)
    lines = printed(table(top_of(view_of(three), where="here"), width), width=width).splitlines()
    assert max(map(len, lines)) <= width
    if gone is not None:
        assert {
            name for name in ("LOSS", "GAIN %", "STEP", "MOVES", "AGE", "HEARD") if name not in lines[0]
        } == gone
        assert any("-> node-1 Ch" in line for line in lines)


def test_the_policy_stands_before_the_address(three):
    """So that a narrow terminal shows it."""
    first, *_ = heading(
        top_of(view_of(three, settings=Settings(policy="progress")), where="here"), sort="name", reverse=False
    )
    assert str(first) == "policy progress, here"


@pytest.mark.parametrize(("phase", "shows"), [(Phase.RUNNING, False), (Phase.PENDING, True)])
def test_what_is_over_is_no_present_reason(scene, phase, shows):
    """A replica that runs again after it was moved, or restarted from a hang, shows none."""
    name = scene.job()
    scene.running(name)
    scene.replica(name, phase=phase, note="migrate: it had converged", crashes=2)
    shown = printed(table(top_of(view_of(scene), where="here")))
    assert "2 crashes" in shown
    assert ("it had converged" in shown) is shows


def printed(shown, width=140):
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(shown)
    return console.export_text()


def test_jobs_of_several_workers_have_more_columns():
    """Workers of how few to how many, position and change; a cluster of single pods has none of these."""
    state = changing()
    view = View(
        state=state,
        now=CHANGED_AT,
        transactions=rows_of(state),
        waiting=waiting_rows(state, CHANGED_AT),
    )
    top = top_of(view, where="here", sort="name")
    first = next(row for row in top.replicas if row.replica == "default/e/worker/0")
    assert (first.workers, first.min_workers, first.max_workers, first.queue) == (2, 1, 3, "team")
    assert (first.change, first.change_state) == ("scale-out 2 -> 3", "Checkpointing")
    waits = next(row for row in top.replicas if row.job == "default/w")
    assert (waits.position, waits.waiting_for, waits.workers) == (1, "quota", 0)
    assert (top.changes_in_flight, top.waiting) == (1, 1)
    shown = printed_of(top)
    assert "WORKERS" in shown
    assert "2 of 1-3" in shown
    assert "1 in team, quota" in shown
    assert "scale-out 2 -> 3 Checkpointing" in shown
    assert "1 change of jobs; 1 job waits" in shown
    assert "scale-out 2 -> 3 Ch" in printed(table(top, 80), width=80)
    assert "1 in team, quota" in printed(table(top, 60), width=60)


def test_single_pods_have_no_columns_for_gangs(three):
    """Nothing waits and no job has more than one worker."""
    shown = printed_of(top_of(view_of(three), where="here"))
    assert "WORKERS" not in shown
    assert "POSITION" not in shown


def test_a_dry_run_is_said(scene):
    """Above everything: what is shown as decided is not being done."""
    dry = msgspec.structs.replace(scene.state.settings, dry_run=True)
    assert "DRY RUN: nothing is ordered" in printed_of(top_of(view_of(scene, settings=dry), where="here"))
    assert "DRY RUN" not in printed_of(top_of(view_of(scene), where="here"))


def printed_of(top):
    console = Console(file=io.StringIO(), width=200)
    for line in heading(top, sort="name", reverse=False):
        console.print(line)
    console.print(table(top))
    return console.file.getvalue()


def test_what_is_stuck_and_what_is_queued_is_said(scene):
    """The reason why a move does not end is in red above everything; waiting moves are counted."""
    name = scene.job()
    scene.running(name)
    scene.move(name, TransactionState.LEAVING, stuck="it was told 3 times to end")
    scene.request(name)
    top = top_of(view_of(scene), where="here")
    assert (top.moves_in_flight, top.stuck, top.moves_queued) == (1, 1, 1)
    shown = printed_of(top)
    assert "STUCK: 1 cannot come to an end" in shown
    assert "1 move in flight, 1 queued" in shown
    assert "-> node-1 Leaving, stuck: it was told 3 times to end" in shown
    assert top.replicas[0].stuck == "it was told 3 times to end"


def test_one_of_something_is_no_plural_on_any_screen(three):
    """`top`, the report and the words of a drain speak of one move, change, job and node."""
    top = msgspec.structs.replace(
        top_of(view_of(three), where="here"), moves_in_flight=1, changes_in_flight=1, waiting=1, hung=1
    )
    said = "\n".join(map(str, heading(top, sort="name", reverse=False)))
    assert "1 move in flight, 1 change of jobs; 1 job waits" in said
    assert "1 replica trains no more" in said
    drained = Drained(manager="here", node="n", dry_run=False, cordoned=None, stay=(Stays("a", "why"),))
    words = []
    _summary(drained, words.append)
    assert words[-1] == "n: 0 moves asked for, 0 done, 1 replica stays"
    look = FirstLook(
        seconds=60,
        nodes=1,
        replicas=1,
        categories={},
        converged_cpu_hours=0,
        converged_gpu_hours=0,
        cpu_hours=0,
        gpu_hours=0,
        would=(),
        against=(),
    )
    assert describe_look(look)[0] == "1 replica on 1 node, looked at for 1 min: none runs now"
