"""Whatever a path means, now or later, is followed; and a restarted sidecar goes on where it was."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.event_files.event_line import decode
from specon_sidecar.event_files.events import EventFiles, log_size
from specon_sidecar.following import log_choice
from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.log_choice import choose_log
from specon_sidecar.observing.follow import LogFollower
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state_file import load
from specon_sidecar.settings import Settings
from support.logs.event_files import append, event_file, tensor

DEADLINE = 10
INTERVAL = 0.02
CSV = "step,loss\n1,2\n2,1.5\n3,1\n"


def losses(begin, end):
    return [tensor(step, epoch_loss=1 / step) for step in range(begin, end + 1)]


def settings(path, **changes):
    return Settings(
        log=os.fspath(path),
        watch="polling",
        poll_interval=INTERVAL,
        classifier=ClassifierSettings(interval=10.0),
        **changes,
    )


@pytest.mark.parametrize(
    ("names", "chosen", "kind"),
    [
        (["a.log", "b/metrics.csv", "c/x.jsonl"], "b/metrics.csv", "file"),
        (["a.log", "c/x.jsonl", "events.out.tfevents.1.h"], "c/x.jsonl", "file"),
        (["a.log", "scalars.json"], "scalars.json", "file"),
        (["a.log", "tb/events.out.tfevents.1.h"], "", "events"),
        (["a.log", "model.bin"], "a.log", "file"),
        (["model.bin", "config.json"], "", "later"),
        ([], "", "later"),
    ],
)
def test_best_log_of_a_directory_is_chosen(tmp_path, names, chosen, kind):
    """A table before JSON lines, before event files, before text; anything else is no log."""
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(CSV if name.endswith(".csv") else "x")
    log = choose_log(tmp_path)
    assert (log.path, log.kind) == (tmp_path / chosen, kind)


def test_table_without_a_column_to_follow_is_passed_over(tmp_path):
    """A CSV file of something else is not the log."""
    (tmp_path / "gpu.csv").write_text("time,power\n1,300\n")
    (tmp_path / "train.out").write_text("step 1 loss 2")
    assert choose_log(tmp_path).path == tmp_path / "train.out"


def test_newest_of_a_kind_is_chosen(tmp_path):
    """Of two of a kind the one changed last is followed."""
    for number, name in enumerate(("b.log", "a.log")):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (number, number))
    assert choose_log(tmp_path).path == tmp_path / "a.log"


def test_large_directory_is_bounded_with_a_note(tmp_path, monkeypatch):
    """A directory too large to be seen whole is told."""
    monkeypatch.setattr(log_choice, "MOST_ENTRIES", 5)
    for number in range(9):
        (tmp_path / f"{number}.bin").touch()
    log = choose_log(tmp_path)
    assert log.kind == "later"
    assert "more than 5 entries" in log.note


def test_event_file_is_known_by_its_content(tmp_path):
    """An event file that was renamed is one all the same; a name alone says it before the file exists."""
    path = event_file(tmp_path)
    path.rename(tmp_path / "board")
    assert choose_log(tmp_path / "board").kind == "events"
    assert choose_log(tmp_path / "events.out.tfevents.7.host").kind == "events"
    assert choose_log(tmp_path / "train.log").kind == "file"


class Following:
    """Follows a path in a task and collects its lines."""

    def __init__(self, path):
        given = settings(path)
        log = choose_log(path)
        _, start = begin(given, 0.0, log)
        self.follower = LogFollower(given, log, start)
        self.lines = []
        self._news = asyncio.Event()

    async def _run(self):
        async for lines in self.follower.batches():
            self.lines += lines
            self._news.set()

    async def has(self, count):
        async with asyncio.timeout(DEADLINE):
            while len(self.lines) < count:
                await self._news.wait()
                self._news.clear()

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self.follower.stop()
        async with asyncio.timeout(DEADLINE):
            await self._task


@pytest.mark.parametrize("exists", [True, False], ids=["empty", "missing"])
async def test_directory_that_gets_its_log_later(tmp_path, exists):
    """A directory that is empty, or not there yet, is followed as soon as it holds a log."""
    directory = tmp_path / "run"
    if exists:
        directory.mkdir()
    async with Following(directory) as following:
        await asyncio.sleep(2 * INTERVAL)
        append(event_file(directory / "train"), *losses(1, 3))
        await following.has(3)
        append(next((directory / "train").iterdir()), *losses(4, 4))
        await following.has(4)
    assert [decode(line).step for line in following.lines] == [1, 2, 3, 4]
    assert following.follower.position is None
    assert len(following.follower.event_positions) == 1


async def test_structured_file_of_a_directory_is_followed(tmp_path):
    """The table in a directory is followed like any file."""
    (tmp_path / "metrics.csv").write_text(CSV)
    async with Following(tmp_path) as following:
        await following.has(4)
        with (tmp_path / "metrics.csv").open("a") as file:
            file.write("4,0.5\n")
        await following.has(5)
    assert following.lines[-1] == b"4,0.5"
    assert following.follower.position.offset == len(CSV) + 6


async def test_nothing_to_follow_ends_at_once(tmp_path):
    """A stop while a directory is still empty ends the following."""
    async with Following(tmp_path) as following:
        await asyncio.sleep(INTERVAL)
    assert following.lines == []


@pytest.mark.parametrize("path", ["train.log", "nowhere/train.log"])
async def test_log_that_never_comes_ends_at_once(tmp_path, path):
    """A stop while the named file is not there yet ends the following, and lets others work meanwhile."""
    async with Following(tmp_path / path) as following:
        await asyncio.sleep(2 * INTERVAL)
        stopped = time.monotonic()
    # A loop that lets nobody else work cannot be timed by the loop.
    assert time.monotonic() - stopped < DEADLINE
    assert following.lines == []
    assert following.follower.position is None


def read_all(observer, files, now):
    for lines in files.read():
        observer.take(lines, now)


def leave_state(path, **changes):
    """Read the events as one incarnation, and return its observer and state."""
    observer, files = begin(settings(path, **changes), 0.0)
    read_all(observer, files, 1.0)
    observer.tick(10.0)
    state = observer.state(10.0, changes["incarnation"], FilePosition(0, 0, 0))
    return observer, state, files.positions


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Leave the state of incarnation `a`, after five events of the training."""
    import msgspec  # noqa: PLC0415 - for this fixture alone

    from specon_sidecar.observing import resume  # noqa: PLC0415 - the same

    append(event_file(tmp_path / "log" / "train"), *losses(1, 5))
    observer, state, places = leave_state(tmp_path / "log", incarnation="a")
    state = msgspec.structs.replace(state, event_files=places)
    monkeypatch.setattr(resume, "load", lambda _: state)
    return observer


def test_same_incarnation_goes_on_at_its_place(tmp_path, saved):
    """A restarted sidecar has its counters, knows the tag, and reads only what came since."""
    append(next((tmp_path / "log" / "train").iterdir()), *losses(6, 7))
    observer, files = begin(settings(tmp_path / "log", incarnation="a", state_file="x"), 0.0)
    assert (observer.samples, observer.format) == (5, "event-files")
    read_all(observer, files, 1.0)
    assert (observer.samples, observer.step) == (7, 7)


def test_next_incarnation_has_the_history_without_its_proof(tmp_path, saved):
    """What the files held before is history; the first sample of the new file proves the resume."""
    size = EventFiles(tmp_path / "log").size
    append(event_file(tmp_path / "log" / "train", 60), *losses(4, 6))
    observer, files = begin(settings(tmp_path / "log", incarnation="b", state_file="x", fresh_from=size), 0.0)
    assert (observer.samples, observer.first_seen, observer.step) == (0, False, 5)
    read_all(observer, files, 1.0)
    assert (observer.samples, observer.first_seen, observer.step) == (3, True, 6)


def test_size_of_a_log_is_that_of_what_is_followed(tmp_path):
    """The start of an incarnation can tell how much of the log was there before."""
    assert log_size(tmp_path) == log_size(tmp_path / "train.log") == 0
    path = event_file(tmp_path / "train")
    append(event_file(tmp_path / "validation"), *losses(1, 5))
    assert log_size(tmp_path) == EventFiles(tmp_path).size > path.stat().st_size
    (tmp_path / "metrics.csv").write_text(CSV)
    assert log_size(tmp_path) == log_size(tmp_path / "metrics.csv") == len(CSV)


@pytest.mark.parametrize("fresh_from", [None, "size"])
def test_without_state_the_files_before_are_history(tmp_path, fresh_from):
    """Without a state the old files give the scale and prove nothing, by their size or as of now."""
    append(event_file(tmp_path), *losses(1, 5))
    size = EventFiles(tmp_path).size if fresh_from else None
    if size is not None:
        append(event_file(tmp_path, 60), *losses(6, 6))
    observer, files = begin(settings(tmp_path, incarnation="b", fresh_from=size), 0.0)
    assert (observer.judgement.first, observer.first_seen) == (1.0, False)
    if size is None:
        append(event_file(tmp_path, 60), *losses(6, 6))
    read_all(observer, files, 1.0)
    assert (observer.samples, observer.step) == (1, 6)


@pytest.mark.processes
async def test_sidecar_follows_event_files_and_keeps_its_place(tmp_path):
    """The whole sidecar on event files that come late: verdict, state, and the bound of its memory."""
    directory, state = tmp_path / "board", tmp_path / "state"
    directory.mkdir()
    sidecar = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "specon_sidecar", "--log", os.fspath(directory), "--interval", "0.2",
        "--poll-interval", "0.05", "--state-file", os.fspath(state), "--incarnation", "a",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    append(event_file(directory / "train"), *losses(1, 500))
    async with asyncio.timeout(30):
        while not state.exists():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.02)
        status = Path(f"/proc/{sidecar.pid}/status").read_text()  # noqa: ASYNC240 - not a disk
        with contextlib.suppress(ProcessLookupError):
            sidecar.send_signal(signal.SIGTERM)
        out, errors = await sidecar.communicate()
    told = out.decode().splitlines()
    assert "format event-files, metric 'train/epoch_loss'" in told
    assert "500 lines, 500 samples, format event-files" in told[-1]
    assert b"Traceback" not in errors
    (place,) = load(state).event_files.values()
    assert place.offset == next((directory / "train").iterdir()).stat().st_size
    resident = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    assert int(resident.split()[1]) < 130 * 1024
