"""The disk of the state directory is full: said in words, waited out, and nothing acknowledged is lost."""

import signal
from collections.abc import Iterator

import pytest

from specon_manager.model.cluster import Phase
from specon_manager.runtime.journal import NAME, first_difference, recover
from support.local.owner_http import SECONDS, Manager, ask, manager_of
from support.local.small_disk import SmallDisk, small_disk
from support.local.stage import Running, Stage

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\n"
REPLICA = "default/waits/worker/0"


@pytest.fixture
def disk(stage: Stage) -> Iterator[SmallDisk]:
    """Give a small disk with the state directory on it; everything else of the test is elsewhere."""
    with small_disk(stage.folder / "disk") as disk:
        stage.state = disk.path / "state"
        yield disk
        stage.close()


def started(stage: Stage, *flags: str) -> tuple[Running, Manager]:
    """Start `specon local` with a job that trains until it may end, and wait until it does."""
    waits = {"name": "waits", "command": ["{python}", "-I", "-S", "-c", WAITS, str(stage.hurry)]}
    stage.write_jobs(waits)
    local = ("local", "jobs.yaml", "--state", str(stage.state), "--nodes", "1", "--plain")
    running = stage.specon(*local, *flags)
    manager = manager_of(stage, running)
    stage.eventually(lambda: "waits started" in running.output, SECONDS)
    return running, manager


def submitted_until_full(manager: Manager) -> tuple[list[str], str]:
    """Submit jobs until one is not taken; return those that were acknowledged, and what was said then."""
    acknowledged: list[str] = []
    for number in range(2000):
        job = {"name": f"job-{number}", "command": "true", "environment": {"PADDING": "x" * 500}}
        status, said = ask("POST", "/v1/jobs", manager, job)
        if status != 201:
            assert status == 503, said
            return acknowledged, said["error"]
        acknowledged.append(f"default/job-{number}")
    raise AssertionError("the disk never was full")


def test_a_full_disk_is_waited_out(stage: Stage, disk: SmallDisk):
    """What trains goes on, requests are refused with words, and when there is room everything goes on."""
    running, manager = started(stage)
    trainer = stage.pod("waits", "trainer")
    disk.fill()
    acknowledged, said = submitted_until_full(manager)
    assert f"{stage.state.resolve() / NAME}: No space left on device" in said
    status, said = ask("POST", "/v1/pause", manager, {})
    assert (status, said["error"].split(":")[0]) == (503, "nothing was done")
    assert ask("GET", "/readyz", manager)[0] == 503
    stage.eventually(lambda: "No space left on device: nothing is ordered" in running.errors, SECONDS)
    # What ends meanwhile is not forgotten.
    stage.hurry.touch()
    stage.eventually(lambda: trainer not in stage.processes(), SECONDS)
    assert running.code is None
    disk.empty()
    stage.eventually(lambda: "there is room again" in running.errors, SECONDS)
    assert ask("POST", "/v1/jobs", manager, {"name": "late", "command": "true"})[0] == 201
    assert running.wait(2 * SECONDS) == 0, running.errors
    assert "Traceback" not in running.errors
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert recovered.state.jobs.keys() >= {*acknowledged, "default/late"}
    assert recovered.state.replicas[REPLICA].phase is Phase.SUCCEEDED
    assert recovered.state.replicas[REPLICA].crashes == 0
    assert first_difference(stage.state / NAME)[1] is None


def test_a_manager_that_is_killed_on_a_full_disk_has_lost_nothing_it_acknowledged(
    stage: Stage, disk: SmallDisk
):
    """The torn end of the journal is what nobody was told."""
    running, manager = started(stage)
    disk.fill()
    acknowledged, _ = submitted_until_full(manager)
    running.send(signal.SIGKILL)
    running.wait()
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert recovered.state.jobs.keys() >= set(acknowledged)
    disk.empty()
    again = stage.specon("local", "jobs.yaml", "--state", str(stage.state), "--nodes", "1", "--plain")
    stage.hurry.touch()
    assert again.wait(2 * SECONDS) == 0, again.errors
    recovered = recover(stage.state / NAME)
    assert recovered is not None
    assert recovered.state.replicas[REPLICA].phase is Phase.SUCCEEDED
    assert recovered.state.replicas[REPLICA].starts == 1


@pytest.mark.long
def test_a_manager_that_is_stopped_on_a_full_disk_ends_everything_and_says_so(stage: Stage, disk: SmallDisk):
    """Exit code 1, one sentence with the file, and no process is left."""
    running, manager = started(stage)
    disk.fill()
    submitted_until_full(manager)
    running.send(signal.SIGINT)
    assert running.wait(2 * SECONDS) == 1
    assert f"specon: {stage.state.resolve() / NAME}: No space left on device: only the last" in running.errors
    assert "Traceback" not in running.errors
    assert not stage.pods()


def test_a_manager_does_not_begin_on_a_full_disk(stage: Stage, disk: SmallDisk):
    """It says which file finds no room."""
    disk.fill()
    stage.write_jobs({"name": "job", "command": "true"})
    refused = stage.run_specon("local", "jobs.yaml", "--state", str(stage.state), "--plain")
    assert refused.code in {1, 2}
    assert "No space left on device" in refused.errors
    assert str(stage.state) in refused.errors
    assert "Traceback" not in refused.errors
