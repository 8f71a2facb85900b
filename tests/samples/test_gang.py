"""Workers that train as one, as real processes: they save, pause and end after the same step."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from support.local.workers import DEADLINE, ONE_THREAD, TRAINING, Processes, codes

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(300)]

WHOLE, SHARDED = "elastic_ddp.py", "sharded.py"
ENDLESS = ("--steps", 10**6, "--checkpoint-every", 0)


@pytest.fixture
def processes(tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.close()


@pytest.fixture(params=[WHOLE, SHARDED])
def script(request):
    return request.param


def ask(processes, rank=0):
    """Ask as a sidecar does: in one piece."""
    aside = processes.folder / "aside"
    aside.write_text("move-1\n")
    aside.replace(processes.request(rank))


def lease(processes, rank=0):
    file = processes.request(rank)
    return file.with_name(f"{file.name}.pause")


def step_of(line):
    return int(re.search(r"step=(\d+)", line)[1])


def saved(processes, log="log-0"):
    return [step_of(line) for line in processes.lines(log) if line.startswith("checkpoint saved")]


def tell_all(team):
    """Tell all of them to end; return their statuses and for how long they took."""
    began = time.monotonic()
    for process in team:
        process.send_signal(signal.SIGTERM)
    return codes(team), time.monotonic() - began


def test_a_move_in_a_pause_loses_no_step(processes, script):
    """Asked, saved, paused, told to end, started anew: each step is done once, as if nothing had been."""
    team = processes.team(2, *ENDLESS, script=script)
    processes.wait_for("log-0", "step=5/")
    lease(processes).touch()
    ask(processes)
    processes.wait_for("log-0", "paused at step=")
    processes.wait_for("log-1", "paused at step=")
    (step,) = saved(processes)
    assert not processes.request().exists()
    assert max(processes.losses("log-0")) == step
    statuses, seconds = tell_all(team)
    assert statuses == [143, 143]
    assert seconds < 10
    for log in ("log-0", "log-1"):
        assert re.fullmatch(rf"stopped at step={step} chain=sha256:\w+", processes.lines(log)[-1])
    assert saved(processes) == [step]
    before = len(processes.lines("log-0"))
    end = ("--steps", step + 5, "--checkpoint-every", 0)
    assert codes(processes.team(2, *end, script=script)) == [0, 0]
    assert processes.lines("log-0")[before].startswith(f"resumed from step={step} ")
    assert step_of(processes.lines("log-0")[before + 1]) == step + 1
    alone = Processes(processes.folder / "alone")
    alone.folder.mkdir()
    assert codes(alone.team(2, *end, script=script)) == [0, 0]
    for log in ("log-0", "log-1"):
        moved, unmoved = processes.chains(log), alone.chains(log)
        assert moved[step + 5] == unmoved[step + 5]
        assert {**moved, **unmoved} == moved


def test_a_pause_ends_when_it_is_released_or_nobody_renews_it(processes):
    """Whichever worker was asked, all wait; who asks again meanwhile gets the same step anew."""
    team = processes.team(2, *ENDLESS)
    processes.wait_for("log-0", "step=5/")
    lease(processes, 1).touch()
    ask(processes, 1)
    processes.wait_for("log-0", "paused at step=")
    ask(processes, 0)
    processes.wait_for("log-0", "checkpoint saved", 2)
    first, second = saved(processes)
    assert first == second == max(processes.losses("log-0"))
    lease(processes, 1).unlink()
    processes.wait_for("log-0", f"goes on from step={first}")
    processes.wait_for("log-0", f"step={first + 5}/")
    lease(processes).touch()
    ask(processes)
    processes.wait_for("log-0", "paused at step=", 2)
    os.utime(lease(processes), (1, 1))
    processes.wait_for("log-0", "goes on from", 2)
    assert all(process.poll() is None for process in team)


def test_one_that_is_told_to_end_ends_all_after_the_same_step(processes, script):
    """They cannot train without it: its status is 143, theirs 1, and what was trained is saved."""
    team = processes.team(2, *ENDLESS, script=script)
    processes.wait_for("log-0", "step=5/")
    team[1].send_signal(signal.SIGTERM)
    assert codes(team) == [1, 143]
    stopped, lost = processes.lines("log-1")[-1], processes.lines("log-0")[-1]
    assert lost.startswith("lost a worker step=")
    assert step_of(stopped) == step_of(lost) == saved(processes)[-1]


def test_all_end_when_told_though_one_is_gone_already(processes, script):
    """Nobody has to be killed: the rest ends by itself a moment after it was told."""
    team = processes.team(2, *ENDLESS, script=script)
    processes.wait_for("log-0", "step=5/")
    team[1].kill()
    (status,), seconds = tell_all(team[:1])
    assert status == 143
    assert seconds < 10


def test_shards_go_on_with_another_number_of_workers(processes):
    """Two workers, then one; what was cut off is passed over for the one before it, by all alike."""
    common = ("--checkpoint-every", 5, "--steps")
    assert codes(processes.team(2, *common, 10, script=SHARDED)) == [0, 0]
    assert processes.checkpoints() == ["step-00000005", "step-00000010"]
    newest = processes.folder / "checkpoints" / "step-00000010"
    assert sorted(path.name for path in newest.iterdir()) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    (newest / "__1_0.distcp").unlink()
    before = processes.losses("log-0")
    assert codes(processes.team(1, *common, 12, script=SHARDED)) == [0]
    lines = processes.lines("log-0")
    assert "checkpoint unreadable name=step-00000010" in lines
    assert any(
        line.startswith("resumed from step=5 checkpoint=step-00000005 rank=0 workers=1") for line in lines
    )
    after = processes.losses("log-0")
    assert [after[step] for step in range(6, 11)] == pytest.approx(
        [before[step] for step in range(6, 11)], rel=0.02
    )


def test_shards_of_another_model_are_refused(processes):
    """Status 2, and what they are."""
    assert codes(processes.team(1, "--steps", 2, script=SHARDED)) == [0]
    assert codes(processes.team(1, "--steps", 4, "--hidden", 8, script=SHARDED)) == [2]
    said = (processes.folder / "log-0.err").read_text()
    assert "was saved by model=sharded-perceptron hidden=16, and this run is" in said


def test_torchrun_starts_them_too(processes):
    """It ends on SIGUSR1, so they are asked by a file; it passes SIGTERM on."""
    words = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--"),
        *(TRAINING / WHOLE, "--hidden", 16, "--batch-size", 60, *ENDLESS),
        *("--log", processes.folder / "log-0", "--checkpoint-dir", processes.folder / "checkpoints"),
        *("--request-file", processes.request()),
    ]
    with subprocess.Popen(
        list(map(str, words)), env={**os.environ, **ONE_THREAD}, stderr=subprocess.DEVNULL
    ) as torchrun:
        processes.wait_for("log-0", "step=5/")
        lease(processes).touch()
        ask(processes)
        processes.wait_for("log-0", "paused at step=", 2)
        torchrun.send_signal(signal.SIGTERM)
        torchrun.wait(DEADLINE)
    (step,) = saved(processes)
    lines = processes.lines("log-0")
    assert sum(line.startswith(f"stopped at step={step} ") for line in lines) == 2


def test_one_process_alone_obeys_a_file_and_a_pause_as_well(processes):
    """As do the samples that train by themselves."""
    trainer = processes.start(
        "rnn.py", "log", *ENDLESS, "--hidden", 8, "--batch-size", 8, "--request-file", processes.request()
    )
    processes.wait_for("log", "step=5/")
    lease(processes).touch()
    ask(processes)
    processes.wait_for("log", "paused at step=")
    (step,) = saved(processes, "log")
    assert max(processes.losses("log")) == step
    hidden = processes.folder / "checkpoints" / ".pause"
    shutil.copyfile(lease(processes), hidden)
    trainer.send_signal(signal.SIGUSR1)
    processes.wait_for("log", "checkpoint saved", 2)
    lease(processes).unlink()
    assert saved(processes, "log") == [step, step]
    trainer.send_signal(signal.SIGTERM)
    assert trainer.wait(10) == 143
    assert processes.lines("log")[-1] == f"stopped at step={step}"
