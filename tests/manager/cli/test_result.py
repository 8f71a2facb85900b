from __future__ import annotations

import io

import pytest
from rich.console import Console

from specon_manager.cli.run.result import (
    PlacementLog,
    PlacementSpan,
    conclusions,
    print_result,
    summarize,
    to_table,
)
from specon_manager.core.state import State
from specon_manager.model.cluster import Phase
from specon_manager.model.transactions import TransactionState
from specon_sidecar.classify import Category
from specon_sidecar.wire import Checkpoint


def printed(result, *, styles=False):
    """Return what is printed on a page of 80 columns."""
    console = Console(
        width=80, record=True, file=io.StringIO(), force_terminal=styles, color_system="standard"
    )
    print_result(result, console)
    return console.export_text(styles=styles)


def test_times_count_from_the_begin_and_completion_from_the_submission(scene):
    """A job's moments are relative to the run's begin, its completion time to its own submission."""
    name = scene.job(at=5.0)
    scene.running(name, category=Category.CONVERGED, step=400)
    scene.end(name, at=65.5)
    job = summarize(scene.state, began=1000.0).jobs[0]
    assert (job.name, job.submitted_at, job.finished_at) == ("default/mnist", 5.0, 65.5)
    assert (job.completion_seconds, job.succeeded) == (60.5, True)
    assert (job.category, job.steps, job.crashes) == (Category.CONVERGED, 400, 0)


def test_average_and_makespan_of_a_complete_run(scene):
    """The average is over completion times; the makespan lasts from the first submission to the last end."""
    for name, submitted, ended in [("default/a", 2.0, 30.0), ("default/b", 10.0, 60.0)]:
        scene.end(scene.job(name, at=submitted), at=ended)
    result = summarize(scene.state, began=1000.0)
    assert result.average_completion_seconds == 39.0
    assert result.makespan_seconds == 58.0
    assert result.policy == "specon"
    assert (result.machine.nodes, result.machine.cpus, result.machine.names) == (2, 4.0, ("node-0", "node-1"))


def test_a_failed_job_has_no_completion_time(scene):
    """A failure counts for the makespan but not for the average, and is printed in red."""
    scene.end(scene.job("default/good"), at=30.0)
    scene.end(scene.job("default/bad"), at=50.0, phase=Phase.FAILED)
    result = summarize(scene.state, began=1000.0)
    bad = result.jobs[1]
    assert (bad.succeeded, bad.finished_at, bad.completion_seconds) == (False, 50.0, None)
    assert (result.average_completion_seconds, result.makespan_seconds) == (30.0, 50.0)
    assert conclusions(result)[0] == "average completion 30.0 s, 1 job (1 failed)"
    red = next(line for line in printed(result, styles=True).splitlines() if "bad" in line)
    assert "\x1b[31m" in red
    assert "failed" in red


def test_one_failed_replica_fails_its_job(scene):
    """A job has succeeded only when all its replicas have."""
    first = scene.job(replicas=2)
    scene.replica(first, phase=Phase.FAILED)
    scene.end(first.replace("/0", "/1"), at=9.0)
    assert summarize(scene.state, began=1000.0).jobs[0].succeeded is False


def test_an_unfinished_job_leaves_the_makespan_open(scene):
    """Where a job has not ended there is no makespan, and the job is named as not ended."""
    scene.end(scene.job("default/done"), at=30.0)
    scene.running(scene.job("default/slow"))
    result = summarize(scene.state, began=1000.0)
    slow = result.jobs[1]
    assert (slow.finished_at, slow.completion_seconds, slow.succeeded) == (None, None, False)
    assert result.makespan_seconds is None
    assert conclusions(result)[:2] == ["average completion 30.0 s, 1 job (1 not ended)", "makespan unknown"]
    assert "not ended" in next(line for line in printed(result).splitlines() if "slow" in line)


def test_a_run_without_jobs_has_no_numbers():
    """Nothing is averaged over nothing."""
    result = summarize(State(), began=1000.0)
    assert (result.jobs, result.average_completion_seconds, result.makespan_seconds) == ((), None, None)
    text = printed(result)
    assert "no jobs" in text
    assert "average completion unknown, 0 jobs" in text
    assert "moves: none" in text


def test_moves_are_counted_and_kept(scene):
    """Moves add up per job and by outcome; one in flight is kept in the state it is in."""
    name, other = scene.job("default/a"), scene.job("default/b")
    scene.replica(name, moves=2)
    checkpoint = Checkpoint(step=90, path="ckpt/90", digest="sha256:" + "0" * 64)
    end = {"downtime": 2.5, "steps_lost": 4, "checkpoint": checkpoint, "first_step": 91}
    scene.move(name, TransactionState.SUCCEEDED, id="move-1", ended_at=1014.0, **end)
    scene.move(name, TransactionState.SUCCEEDED, id="move-2", ended_at=1030.0, downtime=1.25, steps_lost=0)
    scene.move(name, TransactionState.ROLLED_BACK, id="move-3", ended_at=1040.0, note="no room")
    scene.move(other, TransactionState.LEAVING, id="move-4", at=45.0)
    result = summarize(scene.state, began=1000.0)
    first, second = result.jobs
    assert (first.moves, first.downtimes, first.steps_lost) == (2, (2.5, 1.25), 4)
    assert (second.moves, second.downtimes, second.steps_lost) == (0, (), 0)
    assert result.moves_by_outcome == {"Succeeded": 2, "RolledBack": 1, "Leaving": 1}
    moved, flying = result.moves[0], result.moves[3]
    assert (moved.started_at, moved.ended_at, moved.checkpoint_step, moved.first_step_after) == (
        10.0,
        14.0,
        90,
        91,
    )
    assert (flying.started_at, flying.ended_at, flying.state) == (45.0, None, TransactionState.LEAVING)
    row = next(line for line in printed(result).splitlines() if line.startswith("a "))
    assert row.split() == ["a", "0.0", "-", "not", "ended", "2", "4", "2.5,", "1.2"]


def test_the_table_fits_a_page(scene):
    """With names of usual length no word of the table is cut at 80 columns."""
    name = scene.job("default/resnet-cifar", at=100.0)
    scene.end(name, at=1234.5)
    lines = printed(summarize(scene.state, began=1000.0)).splitlines()
    assert lines[1].split() == [
        *("job", "submitted", "finished", "completion", "moves", "steps", "lost", "downtimes")
    ]
    assert lines[2].split() == ["resnet-cifar", "100.0", "1234.5", "1134.5", "0", "0"]
    assert to_table(summarize(scene.state, began=1000.0)).row_count == 1


@pytest.mark.parametrize("name", ["default/[red]x", "default/été-模型", "default/a\x1b[2Jb"])
def test_odd_names_are_printed_as_text(scene, name):
    """Markup and control characters in a name do nothing."""
    scene.job(name)
    text = printed(summarize(scene.state, began=1000.0))
    assert "\x1b" not in text
    assert name.removeprefix("default/").replace("\x1b", " ") in text


def observe(scene, log, at):
    """Show the log the scene at that time."""
    log.observe(scene.state, scene.began + at)


def where(log):
    """Return what the log holds, times relative to the begin."""
    found = (placement.since(1000.0) for placement in log.placements)
    return [(each.node, each.start, each.end) for each in found]


def test_a_placement_lasts_from_the_start_to_the_end(scene):
    """A replica holds its node from the order to start it until it has ended; nothing before and after."""
    log, name = PlacementLog(), scene.job()
    observe(scene, log, 1.0)
    scene.replica(name, phase=Phase.STARTING, node="node-1", starts=1)
    observe(scene, log, 2.0)
    scene.replica(name, phase=Phase.RUNNING, incarnation="a")
    observe(scene, log, 4.0)
    assert where(log) == [("node-1", 2.0, 4.0)]
    scene.end(name, at=9.0)
    observe(scene, log, 9.0)
    observe(scene, log, 11.0)
    assert where(log) == [("node-1", 2.0, 9.0)]
    assert log.placements[0].job == "default/mnist"


def test_a_move_leaves_a_gap(scene):
    """From the eviction to the run of the new incarnation the replica is on no node."""
    log, name = PlacementLog(), scene.job()
    scene.running(name, "node-0")
    observe(scene, log, 1.0)
    for at, state in [(5.0, TransactionState.CHECKPOINTING), (7.0, TransactionState.LEAVING)]:
        scene.move(name, state)
        observe(scene, log, at)
    scene.replica(name, phase=Phase.STARTING, node="node-1", incarnation=None, starts=2)
    scene.move(name, TransactionState.COMING)
    observe(scene, log, 8.0)
    scene.replica(name, phase=Phase.RUNNING, incarnation="b")
    scene.move(name, TransactionState.VERIFYING)
    observe(scene, log, 9.5)
    scene.move(name, TransactionState.SUCCEEDED, ended_at=1010.0)
    observe(scene, log, 12.0)
    assert where(log) == [("node-0", 1.0, 7.0), ("node-1", 9.5, 12.0)]


def test_a_restart_on_the_same_node_is_another_placement(scene):
    """Two incarnations are told apart even where no state between them was seen."""
    log, name = PlacementLog(), scene.job()
    scene.running(name, "node-0")
    observe(scene, log, 1.0)
    scene.running(name, "node-0")
    observe(scene, log, 3.0)
    observe(scene, log, 4.0)
    assert where(log) == [("node-0", 1.0, 3.0), ("node-0", 3.0, 4.0)]


def test_placements_come_into_the_result_relative_to_its_begin(scene):
    """The result has the placements with the run's begin as zero."""
    name = scene.job()
    placement = PlacementSpan(job="default/mnist", replica=name, node="node-0", start=1003.0, end=1009.0)
    placed = summarize(scene.state, began=1000.0, placements=[placement]).placements[0]
    assert (placed.start, placed.end, placed.node) == (3.0, 9.0, "node-0")
