"""The samples of several workers as real processes: any number goes on from the checkpoint of another."""

import contextlib
import itertools
import re
import signal
import socket
import time

import pytest

from support.local.workers import DEADLINE, Processes, codes

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture
def processes(tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.close()


def test_another_number_of_workers_goes_on_from_the_checkpoint(processes):
    """Three workers, then one: it resumes where they stopped, with the losses of one from the start."""
    common = ("--checkpoint-every", 15)
    assert codes(processes.team(3, "--steps", 30, *common)) == [0, 0, 0]
    assert processes.checkpoints() == ["step-00000015.pt", "step-00000030.pt"]
    assert codes(processes.team(1, "--steps", 45, *common)) == [0]
    resumed = "resumed from step=30 checkpoint=step-00000030.pt rank=0 workers=1 chain="
    assert any(line.startswith(resumed) for line in processes.lines("log-0"))
    alone = Processes(processes.folder / "alone")
    alone.folder.mkdir()
    assert codes(alone.team(1, "--steps", 45, *common)) == [0]
    one, several = alone.losses("log-0"), processes.losses("log-0")
    assert list(several) == list(range(1, 46))
    assert several == pytest.approx(one, rel=0.02)


def test_only_the_first_worker_logs_steps_and_saves(processes):
    """The others say when they began and that they are done."""
    assert codes(processes.team(2, "--steps", 5)) == [0, 0]
    assert len(processes.losses("log-0")) == 5
    began, *rest = processes.lines("log-1")
    assert re.fullmatch(r"started model=perceptron pid=\d+ steps=5 rank=1 workers=2", began)
    assert [line.split(" chain=")[0] for line in rest] == ["finished step=5"]


def test_workers_that_are_told_to_end_do_so_and_lose_nothing(processes):
    """All of them end with status 143; the first one saves its last whole step, and goes on from there."""
    team = processes.team(2, "--steps", 10**6)
    processes.wait_for("log-0", "step=20/")
    began = time.monotonic()
    for process in team:
        process.send_signal(signal.SIGTERM)
    assert codes(team) == [143, 143]
    assert time.monotonic() - began < 10
    stopped = int(re.match(r"stopped at step=(\d+) chain=", processes.lines("log-0")[-1])[1])
    last = max(processes.losses("log-0"))
    assert stopped in {last, last + 1}
    assert processes.checkpoints()[-1] == f"step-{stopped:08d}.pt"


def test_a_worker_ends_though_another_hangs(processes):
    """Inside a step that waits for a frozen worker, SIGTERM still ends it soon."""
    team = processes.team(2, "--steps", 10**6)
    processes.wait_for("log-0", "step=10/")
    team[1].send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    team[0].send_signal(signal.SIGTERM)
    assert team[0].wait(10) == 143


def test_the_others_end_when_one_is_killed(processes):
    """A lost worker ends the step for all of them: status 1, and what was trained is saved."""
    team = processes.team(3, "--steps", 10**6)
    processes.wait_for("log-0", "step=10/")
    team[2].kill()
    assert codes(team) == [1, 1, -signal.SIGKILL]
    assert any(line.startswith("lost a worker step=") for line in processes.lines("log-0"))
    assert processes.checkpoints()


def test_sigusr1_saves_while_the_team_trains_on(processes):
    """The first worker saves the step it has just done."""
    team = processes.team(2, "--steps", 10**6, "--checkpoint-every", 0)
    processes.wait_for("log-0", "step=10/")
    team[0].send_signal(signal.SIGUSR1)
    processes.wait_for("log-0", "checkpoint saved")
    step = max(processes.losses("log-0"))
    processes.wait_for("log-0", f"step={step + 5}/")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK must be from 0 to WORLD_SIZE - 1 (1), not 2"),
        ({"RANK": "one"}, "RANK must be a whole number, not 'one'"),
    ],
)
def test_a_wrong_place_is_named(processes, environment, message):
    """Status 2, and what is wrong."""
    process = processes.start("elastic_ddp.py", "log", "--rendezvous", "x", **environment)
    assert process.wait(DEADLINE) == 2
    assert message in (processes.folder / "log.err").read_text()


def test_workers_join_and_leave_a_server_that_trains(processes):
    """One leaves, another joins, the first one trains on to the last step and saves it."""
    steps = ("--steps", 1500, "--log-every", 50, "--image-seconds", 0.0003)
    server = processes.role("ps", 0, *steps)
    first, second = (processes.role("worker", index, *steps) for index in range(2))
    processes.wait_for("worker-1", "joined at step=")
    processes.wait_for("worker-0", "step=")
    second.send_signal(signal.SIGTERM)
    assert second.wait(DEADLINE) == 143
    third = processes.role("worker", 2, *steps)
    first.send_signal(signal.SIGUSR1)
    processes.wait_for("worker-0", "checkpoint saved")
    assert codes([first, third]) == [0, 0]
    assert processes.lines("worker-0")[-1] == "finished step=1500"
    assert processes.checkpoints()[-1] == "step-00001500.npz"
    losses = processes.losses("worker-0")
    assert list(losses) == sorted(losses)
    assert losses[max(losses)] < 0.5 * losses[min(losses)]
    server.send_signal(signal.SIGTERM)
    assert server.wait(DEADLINE) == 143


def test_a_server_goes_on_from_the_checkpoint_with_fewer_workers(processes):
    """All of it ends, and one worker starts again: the steps go on from the newest checkpoint."""
    steps = ("--steps", 10**6, "--checkpoint-every", 100)
    part = [processes.role("ps", 0, *steps), *(processes.role("worker", index, *steps) for index in range(2))]
    processes.wait_for("worker-0", "checkpoint saved", 2)
    for process in part:
        process.send_signal(signal.SIGTERM)
    assert codes(part) == [143] * 3
    saved = int(re.search(r"\d+", processes.checkpoints()[-1])[0])
    before = len(processes.lines("worker-0"))
    again = [processes.role("ps", 0, *steps), processes.role("worker", 0, *steps)]
    processes.wait_for("ps-0", f"resumed from step={saved} checkpoint=step-{saved:08d}.npz")
    processes.wait_for("worker-0", f"joined at step={saved} index=0")
    processes.wait_for("worker-0", f"step={saved + 5}/")
    assert len(processes.lines("worker-0")) > before
    assert all(process.poll() is None for process in again)


def test_workers_outlast_a_server_that_is_killed(processes):
    """They wait for the next one, which goes on from the newest checkpoint that is whole."""
    steps = ("--steps", 10**6, "--checkpoint-every", 50)
    server = processes.role("ps", 0, *steps)
    worker = processes.role("worker", 0, *steps)
    processes.wait_for("worker-0", "checkpoint saved", 2)
    server.kill()
    processes.wait_for("worker-0", "parameter server lost")
    newest = processes.folder / "checkpoints" / processes.checkpoints()[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    processes.role("ps", 0, *steps)
    processes.wait_for("ps-0", f"checkpoint unreadable name={newest.name}")
    processes.wait_for("ps-0", "resumed from step=")
    processes.wait_for("worker-0", "checkpoint saved", 4)
    assert worker.poll() is None


def test_nonsense_ends_a_connection_and_nothing_else(processes):
    """Whatever somebody sends to a server, it serves the others."""
    steps = ("--steps", 10**6, "--checkpoint-every", 0)
    server = processes.role("ps", 0, *steps)
    processes.role("worker", 0, *steps)
    processes.wait_for("worker-0", "step=1/")
    port = int(re.search(r'"port": (\d+)', (processes.folder / "server.json").read_text())[1])
    huge = b"G" + (0).to_bytes(8, "big") + bytes(8) + (2**32 - 1).to_bytes(4, "big")
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n" * 4, b"\0" * 21, huge, b"G"):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(nonsense)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(10) == b""
    step = max(processes.losses("worker-0"))
    processes.wait_for("worker-0", f"step={step + 20}/")
    assert server.poll() is None
    assert not any("error" in line for line in itertools.chain(processes.lines("ps-0")))


def test_a_worker_without_a_server_ends_when_told(processes):
    """It waits for the server, and a signal ends that at once."""
    worker = processes.role("worker", 0)
    time.sleep(0.5)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 143
