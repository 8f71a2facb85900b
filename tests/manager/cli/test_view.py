from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from specon_manager.cli.run.live_view import LiveView, render
from specon_manager.cli.run.sparkline import sparkline
from specon_manager.core.state import State
from specon_manager.model.actions import Refusal
from specon_manager.model.cluster import JobSpec, Phase
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import TransactionState
from specon_manager.views.page import Point
from specon_sidecar.classify import Category

WORST = "lstm-text-classifier"


def picture(state: State, *, width: int = 100, height: int = 30, styles: bool = False, curve_of=None) -> str:
    """Return what a terminal of that size shows, 20 seconds after the begin."""
    console = Console(
        width=width,
        height=height,
        record=True,
        force_terminal=True,
        file=io.StringIO(),
        color_system="standard",
        legacy_windows=False,
    )
    console.print(render(state, 1020.0, title="specon demo", began=1000.0, curve_of=curve_of), end="")
    return console.export_text(styles=styles)


def line_with(text: str, words: str) -> str:
    """Return the first line that has these words."""
    return next(line for line in text.splitlines() if words in line)


def full(scene, count):
    """Fill the scene with running jobs, decisions and a move in flight."""
    for number in range(count):
        name = scene.job(f"default/{WORST}-{number}", at=number)
        node = f"node-{number % len(scene.state.nodes)}"
        scene.running(
            name,
            node,
            category=list(Category)[number % len(Category)],
            value=1.2345,
            step=1200,
            total_steps=4000,
            gain=0.0123,
        )
        scene.decided(name, f"Admit {node}", "round robin", at=number)
    scene.move(next(iter(scene.state.replicas)), TransactionState.CHECKPOINTING)


def test_a_running_job_shows_its_numbers(scene):
    """The line of a job has node, category, loss, step of total and gain in per cent."""
    name = scene.job()
    scene.running(name, "node-1", value=0.51234, step=120, total_steps=400, gain=0.0345)
    line = line_with(picture(scene.state), "progressing")
    assert line.split()[1:7] == ["mnist", "node-1", "progressing", "0.5123", "120/400", line.split()[6]]
    assert "3.45" in line.split()


def test_the_bar_is_as_long_as_the_work_done(scene):
    """Three quarters of the steps fill three quarters of the bar with colour."""
    name = scene.job()
    scene.running(name, step=75, total_steps=100)
    scene.state = msgspec.structs.replace(scene.state, nodes={})
    text = picture(scene.state, width=140, styles=True)
    done = line_with(text, "75/100").split("\x1b[34m")[1].split("\x1b")[0]
    assert len(done) == 24 * 3 // 4
    assert set(done) <= {"━", "╸"}


def falling(replica, most):
    """Return a curve that falls, the first half of it while the job still learnt."""
    words = [Category.PROGRESSING] * 8 + [Category.CONVERGED] * 8
    return [Point(float(at), 1.0 - at / 15, word) for at, word in enumerate(words)][:most]


def test_a_wide_terminal_shows_curves_and_totals(scene):
    """From 120 columns on; the curve has the colour of what the job was then."""
    name, other = scene.job(), scene.job("default/gan")
    scene.running(name, category=Category.CONVERGED)
    scene.running(other)
    wide = picture(scene.state, width=120, curve_of=falling)
    assert "██▇▇▆▆▅▅▄▄▃▃▂▂▁▁" in wide
    assert "1 converged, 1 progressing" in wide.splitlines()[0]
    assert "\x1b[36m▄▄▃▃▂▂▁▁" in picture(scene.state, width=120, styles=True, curve_of=falling)
    narrow = picture(scene.state, width=119, curve_of=falling)
    assert "█" not in narrow
    assert "1 converged" not in narrow


@pytest.mark.parametrize(
    "values", [[], [1.0], [float("nan"), 1.0], [2.0, 2.0, 2.0], [1.0, float("inf"), 0.0]]
)
def test_a_curve_of_odd_values_breaks_nothing(values):
    """What is no number is left out, one value is no curve, and a level one lies in the middle."""
    line = sparkline([Point(0.0, value, Category.UNKNOWN) for value in values], 16).plain
    assert line in {"", "▅▅▅", "█▁"}


def test_a_node_shows_measured_usage_and_its_jobs(scene):
    """The line of a node has its share of CPU in use, who is there, and who is coming."""
    first, second = scene.job("default/mnist"), scene.job("team-a/gan")
    scene.running(first, "node-0")
    scene.running(second, "node-1")
    scene.move(first, TransactionState.RESERVED)
    text = picture(scene.state)
    assert "75 % of 2 CPU 1: mnist" in line_with(text, "node-0")
    assert "1: +mnist team-a/gan" in line_with(text, "node-1 ")


def test_a_node_that_takes_nothing_says_so(scene):
    """A node that is not ready is named as such, and one without cores breaks nothing."""
    node = msgspec.structs.replace(scene.state.nodes["node-0"], ready=False, capacity=Resources())
    scene.state = msgspec.structs.replace(scene.state, nodes={"node-0": node})
    assert "0 % of 0 CPU not ready" in picture(scene.state)


@pytest.mark.parametrize(
    ("category", "code"),
    [
        (Category.PROGRESSING, "32"),
        (Category.WATCHING, "33"),
        (Category.CONVERGED, "36"),
        (Category.STALLED, "31"),
        (Category.DIVERGING, "31"),
        (Category.UNKNOWN, "2"),
    ],
)
def test_each_category_has_its_colour(scene, category, code):
    """Green grows, yellow is watched, cyan has converged, red needs a person, dim is not known yet."""
    scene.running(scene.job(), category=category)
    assert f"\x1b[{code}m{category}" in picture(scene.state, styles=True)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.STARTING, Phase.SUCCEEDED, Phase.FAILED])
def test_a_job_that_does_not_run_shows_its_phase(scene, phase):
    """What the sidecar said before does not hide that the replica does not run."""
    name = scene.job()
    scene.running(name, category=Category.CONVERGED)
    scene.replica(name, phase=phase)
    assert phase.lower() in line_with(picture(scene.state), "│ mnist")
    assert "converged" not in picture(scene.state)


def test_a_move_in_flight_is_shown_with_target_and_state(scene):
    """A job that is being moved says where to and how far that is."""
    name = scene.job()
    scene.running(name)
    scene.replica(name, moves=2)
    scene.move(name, TransactionState.CHECKPOINTING)
    text = picture(scene.state)
    assert "2 -> node-1 Checkpointing" in line_with(text, "progressing")
    assert "1 in flight" in text


def test_crashes_and_the_end_are_shown(scene):
    """A job that crashed and ended says how often and how long it took."""
    name = scene.job(at=2.0)
    scene.replica(name, crashes=2)
    scene.end(name, at=14.5)
    assert "0, 2 crashes, took 12.5 s" in picture(scene.state)


def test_moves_that_ended_come_before_refusals(scene):
    """What was done is shown newest first, with its cost; refusals only fill what is left, and dim."""
    name = scene.job()
    scene.decided(name, "Admit node-0", "round robin", at=1)
    scene.decided(name, "Migrate node-1", "gain too small", at=15, refusal=Refusal.NO_GAIN)
    end = {"ended_at": 1012.0, "downtime": 2.13, "steps_lost": 7}
    scene.move(name, TransactionState.SUCCEEDED, **end)
    lines = picture(scene.state).splitlines()
    order = [
        index
        for words in ("Succeeded: ", "start on", "refused")
        for index, line in enumerate(lines)
        if words in line
    ]
    assert order == sorted(order)
    assert len(order) == 3
    assert "12.0s mnist node-0 -> node-1 Succeeded: downtime 2.1 s, 7 steps lost" in lines[order[0]]
    assert "15.0s mnist move to node-1 refused: gain too small" in lines[order[2]]
    assert "\x1b[2m  15.0s" in picture(scene.state, styles=True)


def test_at_most_six_entries_are_shown(scene):
    """The view shows the latest six of many decisions."""
    name = scene.job()
    for number in range(9):
        scene.decided(name, f"Admit node-{number}", "because", at=number)
    text = picture(scene.state)
    assert [n for n in range(9) if f"start on node-{n}:" in text] == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("jobs", "nodes", "width", "height"),
    [(12, 2, 100, 30), (12, 2, 80, 24), (16, 4, 100, 30), (16, 4, 80, 24), (10, 2, 200, 60), (1, 1, 80, 24)],
)
def test_everything_important_fits(scene, jobs, nodes, width, height):
    """All nodes, all jobs and at least one decision fit into the terminal, none of its lines too long."""
    scene = type(scene)(nodes)
    full(scene, jobs)
    lines = picture(scene.state, width=width, height=height).splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert sum(" % of 2 CPU" in line for line in lines) == nodes
    assert sum("1200/4000" in line for line in lines) == jobs
    assert any("-> node-1 Check" in line for line in lines)
    assert any("start on" in line for line in lines)


@pytest.mark.parametrize(("width", "height"), [(40, 10), (20, 5), (10, 3), (300, 8)])
def test_a_small_terminal_breaks_nothing(scene, width, height):
    """Far less room than needed cuts lines short, and never raises."""
    full(scene, 16)
    lines = picture(scene.state, width=width, height=height).splitlines()
    assert max(map(len, lines)) <= width
    assert "specon" in lines[0]


def test_jobs_that_ended_give_way_first(scene):
    """Where not all jobs fit, those that still run are shown and the others are counted."""
    full(scene, 40)
    running = f"default/{WORST}-39/worker/0"
    for name in scene.state.replicas:
        if name != running:
            scene.end(name, at=19.0)
    text = picture(scene.state, width=80, height=24)
    assert f"{WORST}-39" in text
    assert "and 23 more" in text
    assert len(text.splitlines()) <= 24


def test_many_nodes_leave_room_for_the_jobs(scene):
    """Nodes take a third of the lines at most; the others are counted."""
    scene = type(scene)(50)
    full(scene, 12)
    text = picture(scene.state, width=80, height=24)
    assert "and 44 more nodes" in text
    assert text.count("1200/4000") >= 12


def test_nothing_yet_is_said_so():
    """An empty state has a picture too."""
    text = picture(State())
    for words in ("no jobs", "no nodes yet", "none yet", "nothing yet"):
        assert words in text


def test_a_job_of_several_replicas_shows_where_they_are(scene):
    """The nodes of all replicas are named, and a replica that moves stands for its job."""
    first = scene.job(replicas=2)
    second = first.replace("/0", "/1")
    scene.running(first, "node-0", step=10)
    scene.running(second, "node-1", step=20)
    scene.move(second, TransactionState.COMING, source="node-1", target="node-0")
    line = line_with(picture(scene.state, width=119), "progressing")
    assert "node-0,node-1" in line
    assert " 20 " in line
    assert "-> node-0 Coming" in line
    assert "1: +mnist/worker/1 mnist/worker/0" in line_with(picture(scene.state, width=120), "node-0 ")


@pytest.mark.parametrize(
    "name", ["default/été-模型", "default/[bold]x[/bold]", "default/a\x1b[2Jb\nc", "", "default/$x_1$"]
)
def test_odd_names_and_reasons_are_only_text(scene, name):
    """Markup and control characters in names and reasons neither colour nor steer the terminal."""
    replica = scene.job(name)
    scene.running(replica, value=float("nan"), step=3, total_steps=0, gain=float("inf"))
    scene.decided(replica, "Admit node-0", "[red]why\x1b]0;title\x07\r\n[/red] not")
    text = picture(scene.state)
    assert "[red]why ]0;title [/red] not" in text
    assert "\x1b" not in text
    assert "[bold]x[/bold]" in text or "[bold]" not in name


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0.0000"),
        (12.345, "12.35"),
        (1.5e-7, "1.5e-07"),
        (-3e9, "-3.0e+09"),
        (float("inf"), "inf"),
        (None, ""),
    ],
)
def test_values_of_any_size_stay_short(scene, value, shown):
    """A loss is shown in at most eight characters, whatever its size."""
    scene.running(scene.job(), value=value, step=77)
    words = line_with(picture(scene.state), "progressing").split()
    assert words[4] == (shown or "77")
    assert len(shown) <= 8


def test_the_metric_names_its_column(scene):
    """The column has the metric's name where all jobs agree, and a general one where they do not."""
    first, second = scene.job("default/a"), scene.job("default/b")
    scene.running(first, metric="accuracy")
    assert "accuracy" in line_with(picture(scene.state), "gain %")
    scene.running(second, metric="loss")
    assert "metric" in line_with(picture(scene.state), "gain %")


def live(height: int = 24) -> tuple[Console, io.StringIO]:
    """Return a console that believes to be a terminal, and what is written to it."""
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=80, height=height, legacy_windows=False), file


def test_the_live_view_gives_the_terminal_back(scene):
    """After the context the main screen and the cursor are back, and the last picture stays."""
    scene.running(scene.job())
    console, file = live()
    with LiveView("specon demo", console=console) as view:
        view.update(scene.state, 1005.0)
        inside = file.getvalue()
    after = file.getvalue().removeprefix(inside)
    assert "\x1b[?1049h" in inside
    assert after.index("\x1b[?25h") < after.index("\x1b[?1049l") < after.index("mnist")


def test_an_error_inside_restores_the_terminal(scene):
    """An exception passes through the view unchanged, and the terminal is restored."""
    console, file = live()

    def interrupted():
        with LiveView("specon demo", console=console) as view:
            view.update(scene.state, 1005.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "\x1b[?1049l" in file.getvalue()
    assert "\x1b[?25h" in file.getvalue()


def test_a_state_that_cannot_be_shown_raises_nothing(scene):
    """A state that no code foresaw is named in place of the picture; the next one is shown again."""
    console, file = live()
    with LiveView("specon demo", console=console) as view:
        view.update(State(nodes=None), 1005.0)  # type: ignore[arg-type]
        assert "this state cannot be shown" in file.getvalue()
        scene.running(scene.job())
        view.update(scene.state, 1006.0)
        assert "mnist" in file.getvalue()


def test_records_that_do_not_fit_together_are_shown(scene):
    """Replicas without a job, jobs without replicas and moves of nobody leave the rest visible."""
    name = scene.job()
    scene.running(name)
    ghost = msgspec.structs.replace(
        scene.state.replicas[name], name="x/ghost/worker/0", job="x/ghost", node="gone"
    )
    lonely = msgspec.structs.replace(
        scene.state.jobs["default/mnist"], spec=JobSpec(name="x/lonely", replicas=("x/lonely/worker/0",))
    )
    replicas = {**scene.state.replicas, ghost.name: msgspec.structs.replace(ghost, progress=Progress())}
    scene.state = msgspec.structs.replace(
        scene.state, replicas=replicas, jobs={**scene.state.jobs, "x/lonely": lonely}
    )
    scene.move("x/nobody/worker/0", TransactionState.VERIFYING)
    text = picture(scene.state)
    assert "progressing" in line_with(text, "│ mnist")
    assert "pending" in line_with(text, "x/lonely")
    assert "+x/nobody/worker/0" in text


def test_what_is_stuck_stands_out(scene):
    """With its reason among the latest entries, and a count of what is queued."""
    name = scene.job()
    scene.running(name)
    scene.move(name, TransactionState.LEAVING, stuck="it was told 3 times to end")
    scene.request(name)
    text = picture(scene.state)
    assert "-> node-1 Leaving, stuck" in line_with(text, "progressing")
    assert "1 in flight | 1 stuck | 1 queued" in text
    assert "node-0 -> node-1 Leaving: stuck: it was told 3 times to end" in text
