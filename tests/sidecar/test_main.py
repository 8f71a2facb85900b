import asyncio
import json
import logging
import math
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from watchdog.observers.api import EventQueue, ObservedWatch
from watchdog.observers.inotify import InotifyEmitter

from specon_sidecar.__main__ import main
from specon_sidecar.classify import Category, ClassifierSettings
from specon_sidecar.read_once import read_once
from specon_sidecar.settings import Settings

COMMAND = [sys.executable, "-m", "specon_sidecar"]
IDENTITY = ["--replica", "ns/job/worker/0", "--incarnation", "uid"]


def training(steps, start=1):
    return "".join(f"step={n} loss={0.3 + 2 * math.exp(-n / 50):.5f}\n" for n in range(start, steps + 1))


def resident_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


async def start(*arguments):
    return await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def test_once_prints_the_verdict_of_an_old_log(tmp_path):
    """An old log is judged as if replayed: its changes of category and the verdict."""
    (tmp_path / "log").write_text(training(1000))
    written = []
    observer = read_once(Settings(log=str(tmp_path / "log"), once=True), written.append)
    assert written[:2] == ["format key-value, metric 'loss'", "  less is better (as its name says)"]
    assert written[2].endswith("samples are at 20 steps or epochs, 100% of the lines")
    assert written[-1].startswith("verdict converged")
    assert "classifier horizon" in written[-1]
    assert "1000 lines, 1000 samples" in written[-1]
    assert observer.step == 1000


def test_once_finds_the_goal_out(tmp_path):
    """An accuracy that rises is learnt, not lost, though nobody gave the goal; a goal that is given wins."""
    rising = "".join(f"step={n} accuracy={1 - math.exp(-n / 50):.5f}\n" for n in range(1, 1001))
    (tmp_path / "log").write_text(rising)
    settings = Settings(log=str(tmp_path / "log"), once=True)
    written = []
    assert read_once(settings, written.append).judgement.category is Category.CONVERGED
    assert written[1] == "  more is better (as its name says)"
    wrong = msgspec.structs.replace(settings, classifier=ClassifierSettings(goal="min"))
    assert read_once(wrong, written.append).judgement.category is Category.DIVERGING
    assert "  less is better (as --goal says)" in written


def test_once_refuses_a_gan(tmp_path):
    """Two losses against each other are no curve, until one is named."""
    losses = (f"step {n} Loss_D: {1 + math.exp(-n / 30):.5f} Loss_G: 2.{n % 7}\n" for n in range(1, 501))
    (tmp_path / "log").write_text("".join(losses))
    settings = Settings(log=str(tmp_path / "log"), once=True)
    written = []
    assert read_once(settings, written.append).judgement.category is Category.NOT_CLASSIFIABLE
    assert "GAN" in written[-1]
    named = msgspec.structs.replace(settings, metric="Loss_D")
    assert read_once(named, written.append).judgement.category is Category.CONVERGED


def test_once_shows_what_was_not_understood(tmp_path):
    """A log without samples is told with examples of its lines."""
    (tmp_path / "log").write_text("nothing to see\n" * 5)
    written = []
    read_once(Settings(log=str(tmp_path / "log"), once=True), written.append)
    assert "verdict unknown" in written[0 if len(written) == 1 else -4]
    assert written[-1] == "  not understood: nothing to see"


class Manager:
    """A manager on loopback that gives one instruction once a sample was reported."""

    def __init__(self):
        self.reports, self.acknowledgements = [], []
        self.ready, self.acknowledged = asyncio.Event(), asyncio.Event()

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/reports", self._report)
        app.router.add_post("/v1/acknowledgements", self._acknowledge)
        app.router.add_get("/v1/instructions", self._instruct)
        app.router.add_get("/v1/output", self._output)
        app.router.add_get("/v1/checkpoint", self._checkpoint)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self.runner.cleanup()

    async def _report(self, request):
        report = await request.json()
        self.reports.append(report)
        if "first" in report:
            self.ready.set()
        return web.Response()

    async def _acknowledge(self, request):
        self.acknowledgements.append(await request.json())
        self.acknowledged.set()
        return web.Response()

    async def _instruct(self, request):
        await self.ready.wait()
        given = [] if self.acknowledged.is_set() or request.query["known"] else [self.instruction]
        if not given:
            await asyncio.sleep(float(request.query["wait"]))
        return web.json_response({"schema": 1, "instructions": given})

    checkpoint = None

    async def _checkpoint(self, _):
        return web.json_response({"schema": 1, "checkpoint": self.checkpoint})

    async def _output(self, request):
        assert request.query["container"] == "trainer"
        lines = training(100).splitlines()
        return web.Response(
            text="".join(f"2026-11-23T07:00:00.{place:09d}Z {line}\n" for place, line in enumerate(lines))
        )

    instruction = {"type": "checkpoint", "id": "c1", "seconds_left": 20}  # noqa: RUF012 - never changed


@pytest.mark.processes
async def test_a_sidecar_follows_what_a_trainer_prints():
    """Relayed by its manager, each line once though it is given again and again."""
    async with Manager() as manager:
        sidecar = await start(
            "--log", "stdout", "--log-container", "trainer", "--manager", manager.url, *IDENTITY,
            "--checkpoint", "none",
        )  # fmt: skip
        async with asyncio.timeout(30):
            await manager.ready.wait()
            sidecar.send_signal(signal.SIGTERM)
            _, errors = await sidecar.communicate()
    assert (sidecar.returncode, errors) == (0, b"")
    last = manager.reports[-1]
    assert (last["first"]["step"], last["last"]["step"], last["ended"]) == (1, 100, True)


@pytest.mark.processes
async def test_a_trainer_goes_on_from_where_the_manager_says(tmp_path):
    """Where a pod leaves nothing behind; only from a checkpoint that can be read."""
    saved = tmp_path / "step-9"
    saved.write_bytes(b"weights")
    folder = tempfile.mkdtemp(dir="/tmp")  # the path of a socket has to be short
    async with Manager() as manager:
        manager.checkpoint = {"step": 9, "path": str(saved), "digest": "0" * 64}
        hook = Path(folder) / "h" / "s"
        sidecar = await start(
            "--hook", str(hook), "--manager", manager.url, *IDENTITY, "--checkpoint", "hook"
        )
        async with asyncio.timeout(30):
            while not hook.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
            reader, writer = await asyncio.open_unix_connection(str(hook))
            token = (hook.parent / "token").read_text().strip()
            hello = {"version": 1, "token": token, "pid": 2, "rank": 0, "world": 1}
            writer.write(json.dumps({"hello": hello}).encode() + b"\n")
            welcome = json.loads(await reader.readline())
            writer.close()
            sidecar.send_signal(signal.SIGTERM)
            await sidecar.communicate()
    shutil.rmtree(folder)
    assert welcome == {"welcome": {"resume": {"path": str(saved), "step": 9}}}


@pytest.mark.processes
async def test_a_sidecar_follows_saves_and_says_farewell(tmp_path):
    """The whole way: first sample, a checkpoint asked by file, verified, and the last report on SIGTERM."""
    log, saved, request = tmp_path / "log", tmp_path / "saved", tmp_path / "save-now"
    saved.mkdir()
    async with Manager() as manager:
        sidecar = await start(
            "--log", str(log), "--manager", manager.url, *IDENTITY, "--interval", "0.2",
            "--checkpoint", f"file:{request}", "--checkpoint-path", str(saved),
            "--state-file", str(tmp_path / "state"),
        )  # fmt: skip
        log.write_text(training(100))
        async with asyncio.timeout(30):
            await manager.ready.wait()
            while not request.exists():  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.02)
            (saved / ".new").write_bytes(b"weights")
            (saved / ".new").replace(saved / "ckpt-100.bin")
            await manager.acknowledged.wait()
            with log.open("a") as more:
                more.write(training(110, start=101))
            sidecar.send_signal(signal.SIGTERM)
            _, errors = await sidecar.communicate()
        assert (sidecar.returncode, errors) == (0, b"")
        answer = manager.acknowledgements[0]
        assert (answer["done"], answer["checkpoint"]["step"]) == (True, 100)
        last = manager.reports[-1]
        assert (last["ended"], last["last"]["step"], last["first"]["step"]) == (True, 110, 1)
        assert last["checkpoint"] == answer["checkpoint"]
        assert [report["sequence"] for report in manager.reports] == sorted(
            report["sequence"] for report in manager.reports
        )
        assert json.loads((tmp_path / "state").read_bytes())["place"]["offset"] == log.stat().st_size


class Releasing(Manager):
    """A manager that asks for a pause, and calls it off once its sidecar has said that its trainer pauses."""

    async def _instruct(self, request):
        await self.ready.wait()
        given = [
            {"type": "checkpoint", "id": "c1", "seconds_left": 20, "pause": 60},
            {"type": "release", "id": "r1", "request": "c1"},
        ]
        given = given[len(self.acknowledgements) :][:1]
        if not given or request.query["known"]:
            await asyncio.sleep(float(request.query["wait"]))
            given = []
        return web.json_response({"schema": 1, "instructions": given})


@pytest.mark.processes
async def test_a_sidecar_keeps_a_trainer_paused_until_it_is_released(tmp_path):
    """The lease is there when the trainer is asked, and gone once the manager says so."""
    log, saved, request = tmp_path / "log", tmp_path / "saved", tmp_path / "save-now"
    saved.mkdir()
    async with Releasing() as manager:
        sidecar = await start(
            "--log", str(log), "--manager", manager.url, *IDENTITY, "--interval", "0.2",
            "--checkpoint", f"file:{request}", "--checkpoint-path", str(saved),
        )  # fmt: skip
        log.write_text(training(100))
        lease = tmp_path / "save-now.pause"
        async with asyncio.timeout(30):
            while not request.exists():  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.02)
            assert lease.read_text() == "c1\n"
            (saved / ".new").write_bytes(b"weights")
            (saved / ".new").replace(saved / "ckpt-100.bin")
            while len(manager.acknowledgements) < 2:  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.02)
            assert not lease.exists()
            sidecar.send_signal(signal.SIGTERM)
            await sidecar.communicate()
        asked, released = manager.acknowledgements
        assert (asked["id"], asked["done"], asked["paused"]) == ("c1", True, True)
        assert (released["id"], released["done"]) == ("r1", True)


@pytest.mark.processes
@pytest.mark.parametrize("path", ["train.log", "nowhere/train.log", "."])
async def test_a_log_that_never_comes_is_no_reason_to_stay(tmp_path, path):
    """A wrong path of the log holds up neither the end nor the last report."""
    async with Manager() as manager:
        sidecar = await start("--log", str(tmp_path / path), "--manager", manager.url, *IDENTITY)
        async with asyncio.timeout(30):
            while not manager.reports:  # noqa: ASYNC110 - another process makes it true
                await asyncio.sleep(0.02)
            sidecar.send_signal(signal.SIGTERM)
            _, errors = await sidecar.communicate()
    assert (sidecar.returncode, errors) == (0, b"")
    assert manager.reports[-1]["ended"]


@pytest.mark.processes
async def test_a_sidecar_without_manager_ends_in_time(tmp_path, unused_tcp_port):
    """A manager that is away holds up neither the following nor the end."""
    (tmp_path / "log").write_text(training(100))
    sidecar = await start(
        "--log", str(tmp_path / "log"), "--manager", f"http://127.0.0.1:{unused_tcp_port}", *IDENTITY,
        "--interval", "0.1", "--state-file", str(tmp_path / "state"),
    )  # fmt: skip
    async with asyncio.timeout(15):
        while not (tmp_path / "state").exists():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.02)
        sidecar.send_signal(signal.SIGTERM)
        await sidecar.communicate()
    assert sidecar.returncode == 0


@pytest.mark.processes
async def test_sigterm_during_the_start_ends_it_too(tmp_path):
    """From the moment that the settings are read: the first process of a container has no default for it."""
    program = (
        "import signal, sys, specon_sidecar.run as run;"
        "run.Sidecar = lambda *_: signal.raise_signal(signal.SIGTERM);"
        "from specon_sidecar.__main__ import main; sys.exit(main())"
    )
    sidecar = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, "--log", str(tmp_path / "log"), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(15):
        _, errors = await sidecar.communicate()
    assert (sidecar.returncode, errors) == (0, b"")


READ_ONLY = 'mount --make-rprivate / && mount --options remount,bind,ro / && exec "$@"'


@pytest.mark.processes
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs the superuser and unshare to make the root file system read-only",
)
async def test_a_read_only_root_file_system_is_enough(tmp_path):
    """With neither home nor temporary folder: it follows, verifies a checkpoint and says farewell."""
    log, saved = tmp_path / "log", tmp_path / "saved"
    saved.mkdir()
    async with Manager() as manager:
        sidecar = await asyncio.create_subprocess_exec(
            "unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *COMMAND,
            "--log", str(log), "--manager", manager.url, *IDENTITY, "--interval", "0.2",
            "--checkpoint-path", str(saved), "--fresh-from", "now", "--trainer-pid", "auto",
            env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
            cwd="/",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        step = 0
        async with asyncio.timeout(30):
            while not manager.acknowledged.is_set():
                step += 1
                # From its first report on: what is in the log before is history.
                if manager.reports:
                    with log.open("a") as more:
                        more.write(training(step, start=step))
                (saved / ".new").write_bytes(b"weights")
                (saved / ".new").replace(saved / f"ckpt-{step}.bin")
                await asyncio.sleep(0.1)
            sidecar.send_signal(signal.SIGTERM)
            _, errors = await sidecar.communicate()
    assert (sidecar.returncode, errors) == (0, b"")
    assert manager.acknowledgements[0]["done"]
    assert manager.reports[-1]["ended"]


@pytest.mark.processes
async def test_stand_alone_prints_and_sums_up(tmp_path):
    """Without a manager it tells what it sees, and the verdict at Ctrl-C."""
    (tmp_path / "log").write_text(training(100))
    sidecar = await start("--log", str(tmp_path / "log"), "--interval", "0.1")
    async with asyncio.timeout(15):
        told = [(await sidecar.stdout.readline()).decode() for _ in range(5)]
        sidecar.send_signal(signal.SIGINT)
        rest, _ = await sidecar.communicate()
    assert told[0].startswith("format key-value")
    assert told[3].startswith("category progressing at step 100")
    assert "to come" in told[4]
    assert rest.decode().splitlines()[-1].startswith("verdict progressing")


def test_a_file_that_changes_while_it_ends_is_no_error(tmp_path, monkeypatch, caplog):
    """What watches files says so when it is told to end in between; all else that it says is heard."""
    monkeypatch.setattr(sys, "argv", ["specon-sidecar", "--interval", "never"])
    assert main() == 2
    InotifyEmitter(EventQueue(), ObservedWatch(str(tmp_path), recursive=False)).queue_events(0.0)
    logging.getLogger("watchdog.observers.inotify").warning("Inotify queue overflowed")
    assert [record.getMessage() for record in caplog.records] == ["Inotify queue overflowed"]


@pytest.mark.processes
async def test_wrong_settings_end_at_once(tmp_path):
    """All mistakes on standard error, exit code 2."""
    sidecar = await start("--alpha", "7")
    _, errors = await sidecar.communicate()
    assert sidecar.returncode == 2
    assert b"--alpha: '7'" in errors
    assert b"--log: is missing" in errors


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_resident_memory_is_bounded(tmp_path, unused_tcp_port):
    """With everything a manager and metrics need, at most 48 MiB are resident."""
    (tmp_path / "log").write_text(training(5000))
    async with Manager() as manager:
        sidecar = await start(
            "--log", str(tmp_path / "log"), "--manager", manager.url, *IDENTITY, "--interval", "0.1",
            "--metrics-port", str(unused_tcp_port),
        )  # fmt: skip
        async with asyncio.timeout(30):
            await manager.ready.wait()
        resident = resident_kib(sidecar.pid)
        os.kill(sidecar.pid, signal.SIGTERM)
        await sidecar.communicate()
    assert 0 < resident <= 48 * 1024
