"""A sidecar lets a trainer run in turns; whatever happens to sidecar and manager, nothing stays stopped."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from aiohttp import web

from specon_sidecar.slices.freezing import Frozen
from specon_sidecar.slices.guardian import Guardian, spawn_guardian
from specon_sidecar.slices.processes import children_of, read_stat
from specon_sidecar.trainer.container import Gpus, is_told_to_end, roots
from specon_sidecar.trainer.process import TrainerProcess
from specon_sidecar.trainer.sharing import Sharing
from specon_sidecar.wire import Turn, Turns

pytestmark = pytest.mark.processes

GPU = "GPU-5a1b"
# A worker has a session of its own, as torchrun's do.
TRAINER = """
import os, signal, sys, time
if 'STAYS' in os.environ:
    signal.signal(signal.SIGTERM, lambda *_: None)
else:
    signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), os._exit(5)))
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', 'import signal\\nsignal.pause()'], {})
print('ready', flush=True)
while True:
    time.sleep(0.01)
"""
# A kubelet starts native sidecars before the trainer; here the trainer's pid has to be known first.
FIRST_THERE = """
import os, sys
from specon_sidecar.__main__ import main
from specon_sidecar.trainer import sharing
identify = sharing.identify
sharing.identify = lambda pid: (pid, 0) if pid == os.getpid() else identify(pid)
sys.exit(main())
"""
PERIOD = 5.0
REST = 4.9
"""How long the trainer is stopped in a period."""


def state(pid):
    with contextlib.suppress(OSError):
        return read_stat(pid)[0]
    return ""


class Trainer:
    """A trainer of two processes, as the device plugin starts it."""

    def __init__(self, **environment):
        variables = {"NVIDIA_VISIBLE_DEVICES": GPU, **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", TRAINER], env=variables, stdout=subprocess.PIPE
        )
        assert self.process.stdout.readline() == b"ready\n"
        self.pid = self.process.pid
        self.workers = tuple(children_of(self.pid))

    @property
    def states(self):
        return {state(pid) for pid in (self.pid, *self.workers)}

    def end(self):
        for pid in (*self.workers, self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


class Manager:
    """Answers every question for turns with those that it was told to give; not while it is away."""

    def __init__(self, folder, trainer):
        self.folder, self.trainer = folder, trainer
        self.reports, self.asked, self.sidecar = [], 0, None
        self.instructions, self.acknowledged = [], asyncio.Event()
        self.stop, self.seconds, self.status = 0.0, 4.0, 200
        self.begin = 0.0

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/reports", self._report)
        app.router.add_post("/v1/acknowledgements", self._acknowledge)
        app.router.add_get("/v1/instructions", self._instruct)
        app.router.add_get("/v1/turns", self._turns)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        if self.sidecar is not None and self.sidecar.returncode is None:
            self.sidecar.kill()
            await self.sidecar.wait()
        await self.runner.cleanup()

    async def start(self, *, again=False):
        self.sidecar = await asyncio.create_subprocess_exec(
            sys.executable, *(["-m", "specon_sidecar"] if again else ["-c", FIRST_THERE]),
            "--log", str(self.folder / "log"), "--manager", self.url,
            "--replica", "ns/job/worker/0", "--incarnation", "uid", "--trainer-pid", str(self.trainer.pid),
            "--share", "time", "--checkpoint", f"file:{self.folder / 'save-now'}", "--checkpoint-path",
            str(self.folder), "--heartbeat", "0.2",
        )  # fmt: skip

    async def stops(self):
        """Have the trainer stopped from now on."""
        self.stop, self.begin = REST, (self.clock() + REST) % PERIOD
        await until(lambda: self.trainer.states == {"T"})

    @staticmethod
    def clock():
        return time.time()  # another one than the sidecar's

    async def _report(self, request):
        self.reports.append(await request.json())
        return web.Response()

    async def _acknowledge(self, request):
        del request
        self.acknowledged.set()
        return web.Response()

    async def _instruct(self, request):
        given = [] if self.acknowledged.is_set() or request.query["known"] else self.instructions
        if not given:
            await asyncio.sleep(0.1)
        return web.json_response({"schema": 1, "instructions": given})

    async def _turns(self, _):
        self.asked += 1
        await asyncio.sleep(0.05)
        if self.status != 200:
            return web.Response(status=self.status)
        if not self.stop:
            return web.json_response({"schema": 1, "clock": self.clock(), "seconds": self.seconds})
        turn = {"begin": self.begin, "length": PERIOD - REST}
        answer = {"schema": 1, "id": "a", "period": PERIOD, "on": [turn]}
        return web.json_response({**answer, "clock": self.clock(), "seconds": self.seconds})


async def until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.01)


@pytest.fixture
def make():
    """Start trainers that end with the test."""
    made = []

    def start(**environment):
        made.append(Trainer(**environment))
        return made[-1]

    yield start
    for each in made:
        each.end()


@pytest.fixture
async def manager(make, tmp_path):
    """Have a trainer that runs, and a manager."""
    async with Manager(tmp_path, make()) as one:
        yield one


@pytest.fixture
async def sharing(manager):
    """Have a sidecar that can share."""
    await manager.start()
    await until(lambda: any(report.get("share") == {"devices": [GPU]} for report in manager.reports))
    return manager


async def test_a_trainer_is_stopped_whole_and_continued(sharing):
    """Its workers too, though they have sessions of their own; how long it was stopped is told."""
    await sharing.stops()
    assert state(sharing.sidecar.pid) in "RS"
    sharing.stop = 0.0
    await until(lambda: not sharing.trainer.states & {"T"})
    await until(lambda: sharing.reports[-1].get("stopped_seconds", 0) > 0)


async def test_what_nobody_renews_is_over(sharing):
    """A manager that is gone leaves nothing stopped."""
    sharing.seconds = 1.0
    await sharing.stops()
    sharing.status, began = 503, time.monotonic()
    await until(lambda: not sharing.trainer.states & {"T"})
    assert time.monotonic() - began < REST


async def test_a_sidecar_that_is_killed_leaves_nothing_stopped(sharing):
    """Its guardian, an interpreter of its own, continues all of the trainer."""
    await sharing.stops()
    sharing.sidecar.kill()
    await until(lambda: not sharing.trainer.states & {"T"}, Guardian.SECONDS)


async def test_a_sidecar_that_ends_leaves_nothing_stopped(sharing):
    """SIGTERM of its container, as at the end of the pod."""
    await sharing.stops()
    sharing.sidecar.send_signal(signal.SIGTERM)
    await until(lambda: not sharing.trainer.states & {"T"})


async def test_a_sidecar_that_hangs_leaves_nothing_stopped(sharing):
    """Its guardian waits for a word no longer than anything may be stopped."""
    await sharing.stops()
    sharing.sidecar.send_signal(signal.SIGSTOP)
    await until(lambda: not sharing.trainer.states & {"T"}, Guardian.SECONDS + 10)
    sharing.sidecar.send_signal(signal.SIGCONT)


async def test_where_sidecar_and_guardian_are_killed_the_next_one_continues(sharing):
    """As the kernel kills for want of memory; the next sidecar stops nothing for a while, and says so."""
    await sharing.stops()
    sharing.sidecar.send_signal(signal.SIGSTOP)
    [guardian] = children_of(sharing.sidecar.pid)
    os.kill(guardian, signal.SIGKILL)
    sharing.sidecar.kill()
    await sharing.sidecar.wait()
    assert sharing.trainer.states == {"T"}
    asked = sharing.asked
    await sharing.start(again=True)
    await until(lambda: not sharing.trainer.states & {"T"})
    await until(
        lambda: sharing.reports[-1]["share"].get("why", "").startswith("its sidecar was started again")
    )
    assert sharing.asked == asked


async def test_sigterm_reaches_a_stopped_trainer_at_once(sharing):
    """It would stay pending until the next turn; nothing is stopped again after it."""
    await sharing.stops()
    began = time.monotonic()
    sharing.trainer.process.send_signal(signal.SIGTERM)
    assert is_told_to_end(sharing.trainer.pid)
    await until(lambda: sharing.trainer.process.poll() is not None)
    assert sharing.trainer.process.returncode == 5
    assert time.monotonic() - began < REST / 2


async def test_who_was_told_to_end_and_stays_takes_no_turns(make, tmp_path):
    """It is stopped no more, so nobody else is stopped for its turns."""
    async with Manager(tmp_path, make(STAYS="1")) as manager:
        await manager.start()
        await until(lambda: any(report.get("share") == {"devices": [GPU]} for report in manager.reports))
        await manager.stops()
        manager.trainer.process.send_signal(signal.SIGTERM)
        await until(lambda: "was told to end" in manager.reports[-1]["share"].get("why", ""))
        assert manager.reports[-1]["share"]["devices"] == [GPU]
        assert not manager.trainer.states & {"T"}


async def test_a_trainer_runs_while_it_saves(sharing):
    """From the request for a checkpoint on, until that is answered."""
    await sharing.stops()
    sharing.instructions = [{"type": "checkpoint", "id": "c1", "seconds_left": 3}]
    await until((sharing.folder / "save-now").exists)
    for _ in range(20):
        assert not sharing.trainer.states & {"T"}
        await asyncio.sleep(0.05)
    await sharing.acknowledged.wait()
    await until(lambda: sharing.trainer.states == {"T"})


async def test_a_manager_of_an_earlier_version_has_no_turns(sharing):
    """It knows no such path: nobody is stopped, and it is not asked again soon."""
    sharing.status = 404
    await asyncio.sleep(1)
    asked = sharing.asked
    sharing.stop = REST
    await asyncio.sleep(2)
    assert sharing.asked == asked
    assert not sharing.trainer.states & {"T"}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"CUDA_MPS_PIPE_DIRECTORY": "/mps"}, "MPS"),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, "no GPU is seen"),
    ],
)
async def test_who_cannot_run_in_turns_says_why(make, tmp_path, environment, words):
    """And asks the manager for none."""
    async with Manager(tmp_path, make(**environment)) as manager:
        await manager.start()
        await until(lambda: manager.reports)
        assert words in manager.reports[0]["share"]["why"]
        assert manager.asked == 0


def test_gpus_are_named_as_in_all_pods_of_the_node(tmp_path):
    """By UUID where the device plugin says them, parts of a divided GPU too; else by their device files."""
    folder = tmp_path / "7"
    (folder / "root" / "dev").mkdir(parents=True)
    for name in ("nvidia0", "nvidia3", "nvidiactl", "nvidia-uvm", "null"):
        (folder / "root" / "dev" / name).touch()
    for given, expected in (
        ("GPU-b,GPU-a", ("GPU-a", "GPU-b")),
        ("MIG-1f-2", ("MIG-1f-2",)),
        ("void", ("nvidia0", "nvidia3")),
        ("all", ("nvidia0", "nvidia3")),
        ("0", ("nvidia0", "nvidia3")),
    ):
        (folder / "environ").write_text(f"A=1\0NVIDIA_VISIBLE_DEVICES={given}\0")
        assert Gpus(7, tmp_path).names == expected


def test_an_orphan_of_the_container_is_the_trainers_too(make, monkeypatch, tmp_path):
    """Who lost its parent is a child of what holds the namespace: its control group tells whose it is."""
    trainer = make()
    groups = {trainer.pid: b"0::/b", os.getpid(): b"0::/a", 501: b"0::/b", 502: b"0::/a", 503: b"0::/c"}
    for pid, group in groups.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_bytes(group)
    monkeypatch.setattr(
        "specon_sidecar.trainer.container.children_of", lambda _: [501, 502, 503, trainer.pid]
    )
    assert list(roots(trainer.pid, tmp_path)) == [trainer.pid, 501]


class Nobody:
    """A trainer that is not there."""

    alive, root = True, None


def test_sidecars_whose_answers_are_late_agree_on_whose_turn_it_is(monkeypatch):
    """Each by the quickest of its last answers: machines have clocks of their own, and answers come late."""
    manager, behind = 1_000_000.0, {"a": 5.0, "b": 70_000.0}
    late = {"a": (0.3, 0.0, 0.9, 0.2), "b": (0.02, 0.8, 0.1, 0.4)}
    turns = {"a": [Turn(begin=0.0, length=1.5)], "b": [Turn(begin=1.5, length=0.5)]}
    leases = {}
    for name, offset in behind.items():
        one = Sharing(Nobody())
        for number, delay in enumerate(late[name]):
            clock = manager + number
            monkeypatch.setattr("time.monotonic", lambda at=clock - offset + delay: at)
            one.take(Turns(schema=1, id="x", period=2.0, on=tuple(turns[name]), clock=clock, seconds=4.0))
        leases[name] = one._lease
    for tenth in range(30):
        at = manager + 3 + tenth / 10 + 0.05
        runs = {name: leases[name].turn(at - behind[name])[0] for name in behind}
        assert runs["a"] != runs["b"]


def test_turns_that_make_no_sense_stop_nobody():
    """Too long a stop, too long a lease, out of order: the trainer runs."""
    one = Sharing(Nobody())
    wrong = {"period": 60.0, "on": (Turn(begin=0.0, length=1.0),)}, {"on": (Turn(begin=0.0, length=2.0),)}
    for changes in wrong:
        given = {"period": 1.0, "on": (Turn(begin=0.0, length=0.5),), "clock": 1.0, "seconds": 4.0}
        one.take(Turns(schema=1, id="x", **{**given, "seconds": 4.0}))
        assert one._lease is not None
        one.take(Turns(schema=1, id="y", **{**given, **changes}))
        assert one._lease is None


def test_who_has_no_descriptor_left_leaves_nothing_stopped(make):
    """What it cannot look at itself its guardian continues."""
    trainer = make()
    frozen = Frozen(lambda: [trainer.pid], spawn_guardian)
    assert frozen.stop()
    assert trainer.states == {"T"}
    guardian, (_, most) = frozen.guardian.pid, resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
    try:
        frozen.end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.waitpid(guardian, 0)
    assert not trainer.states & {"T"}


def test_processes_that_cannot_be_looked_at_end_no_sidecar(make, monkeypatch):
    """Where no descriptor is left for a moment, for instance: the trainer is then not stopped."""

    def none_left(_):
        raise OSError(errno.EMFILE, "Too many open files")

    trainer = make()
    monkeypatch.setattr("specon_sidecar.trainer.sharing.strangers", none_left)
    one = Sharing(TrainerProcess(trainer.pid))
    assert not one.able
    assert "cannot be looked at now" in one.report().why
