import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from specon_sidecar.trainer.process import CannotAskError
from specon_sidecar.trainer.search import SearchedTrainer, find_trainer

MARKED = b"PATH=/bin\0SPECON_TRAINER=1\0"
PAUSE, OWN_FIRST, OWN = 1, 20, 21


def process(proc, pid, *, parent=0, started=100, environ=b"", state="S"):
    """Lay out what the kernel shows of a process."""
    directory = proc / str(pid)
    directory.mkdir(exist_ok=True)
    numbers = " ".join(["0"] * 17)
    (directory / "stat").write_text(f"{pid} (a) b () {state} {parent} {numbers} {started} 0 7 0\n")
    (directory / "environ").write_bytes(environ)


@pytest.fixture
def proc(tmp_path):
    """Lay out a pod: what holds the namespace, and the sidecar with a shell around it."""
    process(tmp_path, PAUSE, started=1)
    process(tmp_path, OWN_FIRST, started=50)
    process(tmp_path, OWN, parent=OWN_FIRST, started=51)
    (tmp_path / "self").mkdir()
    return tmp_path


def found(proc):
    return find_trainer(proc, OWN)


def test_the_trainer_is_the_first_process_with_the_mark(proc):
    """Neither what holds the namespace, nor our container, nor an unmarked one, nor a child of it."""
    process(proc, PAUSE, environ=MARKED, started=1)
    process(proc, OWN_FIRST, environ=MARKED, started=50)
    process(proc, 30, environ=b"SPECON_TRAINER=10\0NOT_SPECON_TRAINER=1\0")
    process(proc, 40, environ=MARKED, started=200)
    process(proc, 41, parent=40, environ=MARKED, started=201)
    assert found(proc) == 40


def test_what_is_executed_later_in_its_container_is_not_the_trainer(proc):
    """It has the same environment and no parent either, perhaps a lower id: the older one counts."""
    process(proc, 40, environ=MARKED, started=200)
    process(proc, 30, environ=MARKED, started=900)
    assert found(proc) == 40


def test_there_may_be_none_yet(proc):
    """Only other containers run."""
    process(proc, 30)
    assert found(proc) is None
    assert find_trainer(proc / "nowhere", OWN) is None


def test_the_only_hidden_one_of_our_user_is_the_trainer(proc, monkeypatch):
    """The environment of a container with capabilities is not shown; two such are one too many."""
    read = Path.read_bytes

    def hide(path):
        if path.name == "environ" and path.parent.name in {"40", "41"}:
            raise PermissionError(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", hide)
    process(proc, 40)
    assert found(proc) == 40
    process(proc, 41)
    assert found(proc) is None
    process(proc, 50, environ=MARKED, started=900)
    assert found(proc) == 50
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    (proc / "50" / "environ").write_bytes(b"")
    assert found(proc) is None


class Pod:
    """A trainer that comes and goes, at times that are told."""

    def __init__(self, proc):
        self.now, self.searches, self.pid = 0.0, 0, None
        self.trainer = SearchedTrainer(self.find, lambda: self.now, proc)

    def find(self):
        self.searches += 1
        return self.pid


def test_it_is_waited_for_and_found_again_after_a_restart(proc):
    """Before it begins it counts as alive; gone it does not, until its container has started again."""
    pod = Pod(proc)
    assert pod.trainer.alive
    assert pod.trainer.usage() is None
    with pytest.raises(CannotAskError, match="shared"):
        pod.trainer.send(signal.SIGUSR1)
    process(proc, 40, environ=MARKED, started=200)
    pod.pid, pod.now = 40, 1.0
    usage = pod.trainer.usage()
    assert usage is not None
    assert usage.memory_bytes == 7 * os.sysconf("SC_PAGE_SIZE")
    process(proc, 40, environ=MARKED, started=200, state="Z")
    assert not pod.trainer.alive
    assert pod.trainer.usage() is None
    process(proc, 60, environ=MARKED, started=300)
    pod.pid, pod.now = 60, 3.0
    assert pod.trainer.alive
    assert pod.trainer.usage() is not None


def test_it_is_looked_for_once_a_second_at_most(proc):
    """However often somebody asks; not at all while it runs."""
    pod = Pod(proc)
    for tenth in range(30):
        pod.now = tenth / 10
        assert pod.trainer.alive
    assert 3 <= pod.searches <= 4
    process(proc, 40, environ=MARKED, started=200)
    pod.pid, pod.now, pod.searches = 40, 10.0, 0
    for second in range(10, 20):
        pod.now = float(second)
        assert pod.trainer.usage() is not None
    assert pod.searches == 1


SLEEPS = "import sys, time; print('ready', flush=True); sys.stdin.read()"
FINDS = (
    "import os; from specon_sidecar.trainer.search import find_trainer; pid = find_trainer();"
    "print(None if pid is None else open(f'/proc/{pid}/cmdline').read().split(chr(0))[-2])"
)


def in_namespace(pid):
    return ["nsenter", f"--target={pid}", "--pid", "--mount", sys.executable, "-c"]


@pytest.mark.processes
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("nsenter") is None,
    reason="needs the superuser, unshare and nsenter to make a process namespace",
)
def test_the_kernel_shows_a_shared_namespace_as_supposed():
    """In a real one: processes that enter it from outside, as containers do, have no parent there."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", SLEEPS]
    with subprocess.Popen(unshare, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pause:
        assert pause.stdout.readline() == "ready\n"
        children = Path(f"/proc/{pause.pid}/task/{pause.pid}/children").read_text().split()
        if len(children) != 1:
            pytest.skip("unshare made no child of its own")
        enter = in_namespace(children[0])
        answer = subprocess.run([*enter, FINDS], check=True, capture_output=True, text=True)
        assert answer.stdout == "None\n"
        with subprocess.Popen(
            [*enter, SLEEPS, "the-trainer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPECON_TRAINER": "1"},
        ) as trainer:
            assert trainer.stdout.readline() == "ready\n"
            answer = subprocess.run(
                [*enter, FINDS, "the-sidecar"], check=True, capture_output=True, text=True
            )
            trainer.stdin.close()
        pause.stdin.close()
    assert answer.stdout == "the-trainer\n"
