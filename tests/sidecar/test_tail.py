"""A log is followed through all that can happen to it, with the same lines in both ways of watching."""

import asyncio
import contextlib
import errno
import os
import tempfile
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specon_sidecar.following.file_position import FilePosition
from specon_sidecar.following.log_file import CHUNK_BYTES
from specon_sidecar.following.tail import Tail

INTERVAL = 0.02
DEADLINE = 10
both = pytest.mark.parametrize("mode", ["inotify", "polling"])


class Follower:
    """Runs a tail in a task, collects its lines, and lets a test wait for what it expects."""

    def __init__(self, path, *, mode="polling", start=None):
        self.problems = []
        self.tail = Tail(path, watch=mode, poll_interval=INTERVAL, start=start, on_problem=self._problem)
        self.lines = []
        self._news = asyncio.Event()

    def _problem(self, sentence):
        self.problems.append(sentence)
        self._news.set()

    async def _run(self):
        async for batch in self.tail.batches():
            assert batch
            self.lines += batch
            self._news.set()

    async def until(self, true):
        async with asyncio.timeout(DEADLINE):
            while not true():
                with contextlib.suppress(TimeoutError):
                    # Counters change without a line: look now and then.
                    async with asyncio.timeout(INTERVAL):
                        await self._news.wait()
                self._news.clear()

    async def has(self, *lines):
        try:
            await self.until(lambda: len(self.lines) >= len(lines))
        finally:
            assert self.lines == list(lines)

    async def __aenter__(self):
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_):
        self.tail.stop()
        async with asyncio.timeout(DEADLINE):
            await self._task


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def append(path, data):
    with path.open("ab") as writer:
        writer.write(data)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "run" / "train.log"


@pytest.fixture
def made(log):
    log.parent.mkdir()
    log.touch()
    return log


@both
async def test_file_and_directory_appear_late(log, mode):
    """Nothing there is no problem; the lines come as soon as there are some."""
    async with Follower(log, mode=mode) as follower:
        await asyncio.sleep(0)
        log.parent.mkdir()
        append(log, b"one\ntw")
        await follower.has(b"one")
        append(log, b"o\n")
        await follower.has(b"one", b"two")
    assert follower.problems == []


@both
async def test_rotation_by_rename(made, mode):
    """What reached the old file before the new one was written to is read first, then the new one."""
    async with Follower(made, mode=mode) as follower:
        append(made, b"1\n")
        await follower.has(b"1")
        old = made.rename(made.with_suffix(".1"))
        made.touch()  # the rotator makes it before the writer is told
        append(old, b"2\n")
        await follower.has(b"1", b"2")
        append(old, b"3\n")
        append(made, b"4\n")
        await follower.has(b"1", b"2", b"3", b"4")
    assert follower.tail.counters.rotations == 1


async def test_half_line_before_a_rotation_is_never_joined(made):
    """The unfinished end of the old file makes no number with the beginning of the new one."""
    async with Follower(made) as follower:
        append(made, b"a\nloss=0.5")
        await follower.has(b"a")
        made.rename(made.with_suffix(".1"))
        append(made, b"2024-01-01 loss=0.4\n")
        await follower.has(b"a", b"2024-01-01 loss=0.4")


@both
async def test_truncation(made, mode):
    """A file that shrank is read from its beginning, and a carried half line is dropped."""
    async with Follower(made, mode=mode) as follower:
        append(made, b"1\n2\n3\nhalf")
        await follower.has(b"1", b"2", b"3")
        made.write_bytes(b"4\n")
        await follower.has(b"1", b"2", b"3", b"4")
    assert follower.tail.counters.truncations == 1


async def test_truncation_that_grew_beyond_our_place(made):
    """A file that was truncated and is already longer again is noticed by its content."""
    async with Follower(made) as follower:
        append(made, b"1\n2\n")
        await follower.has(b"1", b"2")
        made.write_bytes(b"3\n4\n5\n6\n")
        await follower.has(b"1", b"2", b"3", b"4", b"5", b"6")
    assert follower.tail.counters.truncations == 1


async def test_truncation_under_a_writer_that_keeps_its_offset(made):
    """The hole of NULs that such a writer leaves is skipped, whatever its size."""
    async with Follower(made) as follower:
        append(made, b"1\n")
        await follower.has(b"1")
        os.truncate(made, 0)
        await follower.until(lambda: follower.tail.counters.truncations == 1)
        os.truncate(made, 20 * CHUNK_BYTES)
        append(made, b"2\n")
        await follower.has(b"1", b"2")
    assert follower.tail.counters.oversized == 0


@both
async def test_deleted_and_made_again(made, mode):
    """A deleted file is read as long as it is written to, then the new one from its beginning."""
    async with Follower(made, mode=mode) as follower:
        with made.open("ab", buffering=0) as writer:
            writer.write(b"1\n")
            await follower.has(b"1")
            made.unlink()
            writer.write(b"2\n")
            await follower.has(b"1", b"2")
        append(made, b"3\n")
        await follower.has(b"1", b"2", b"3")


@both
async def test_directory_deleted_and_made_again(made, mode):
    """The directory may go too."""
    async with Follower(made, mode=mode) as follower:
        append(made, b"1\n")
        await follower.has(b"1")
        made.unlink()
        made.parent.rmdir()
        made.parent.mkdir()
        append(made, b"2\n")
        await follower.has(b"1", b"2")


@both
async def test_directory_in_place_of_the_file(log, mode):
    """A directory at the path is a problem that is told once, and is waited out."""
    log.mkdir(parents=True)
    async with Follower(log, mode=mode) as follower:
        await follower.until(lambda: follower.problems)
        append(log.parent / "noise", b"x")
        await asyncio.sleep(3 * INTERVAL)  # several looks
        assert follower.problems == [f"{log} is a directory"]
        log.rmdir()
        append(log, b"1\n")
        await follower.has(b"1")


async def test_pipe_in_place_of_the_file(log):
    """A pipe is neither opened nor waited for."""
    log.parent.mkdir()
    os.mkfifo(log)
    async with Follower(log) as follower:
        await follower.until(lambda: follower.problems)
        assert follower.problems == [f"{log} is not a regular file"]


async def test_unreadable_file(made, monkeypatch):
    """A file that may not be read is a problem that is told once, and again if it returns."""
    real, refused = os.open, [True]

    def opens(path, *rest, **named):
        if refused[0] and path == made:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", opens)
    told = f"cannot open {made}: Permission denied"
    append(made, b"1\n")
    async with Follower(made) as follower:
        await follower.until(lambda: follower.problems)
        await asyncio.sleep(3 * INTERVAL)  # several looks
        assert follower.problems == [told]
        refused[0] = False
        await follower.has(b"1")
        refused[0] = True
        made.rename(made.with_suffix(".1"))
        append(made, b"2\n")
        await follower.until(lambda: len(follower.problems) == 2)
        refused[0] = False
        await follower.has(b"1", b"2")
    assert follower.problems == [told, told]


async def test_failed_read_goes_on_at_the_same_place(made, monkeypatch):
    """After an error of the volume the file is opened again, and no line comes twice or is lost."""
    async with Follower(made) as follower:
        append(made, b"1\nha")
        await follower.has(b"1")
        real, failing = os.pread, [True]

        def reads(*arguments):
            if failing[0]:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return real(*arguments)

        monkeypatch.setattr(os, "pread", reads)
        append(made, b"lf\n2\n")
        await follower.until(lambda: follower.problems)
        failing[0] = False
        await follower.has(b"1", b"half", b"2")
    assert follower.problems == [f"cannot read {made}: {os.strerror(errno.ESTALE)}"]


async def test_strange_bytes(made):
    """Carriage returns end lines, NULs vanish, bytes that are no text pass, and huge lines are dropped."""
    async with Follower(made) as follower:
        append(made, b"a\rb\r\n\0c\0\n\xff\xfe\n" + b"x" * 10_000_000 + b"\nd\n")
        await follower.has(b"a", b"b", b"c", b"\xff\xfe", b"d")
    assert follower.tail.counters.oversized == 1
    assert follower.tail.counters.lines == 5


async def test_last_line_without_end_comes_at_the_end(made):
    """A half line is handed out when the tail is stopped, not before."""
    async with Follower(made) as follower:
        append(made, b"1\nloss=0.5")
        await follower.has(b"1")
    assert follower.lines == [b"1", b"loss=0.5"]
    assert follower.tail.position.offset == made.stat().st_size


async def test_stop_reads_what_is_there(made):
    """Whatever the file holds when the tail is stopped is handed out, even if it was not opened before."""
    append(made, b"1\n" * 300_000)
    tail = Tail(made, poll_interval=INTERVAL)
    tail.stop()
    assert sum([len(batch) async for batch in tail.batches()]) == 300_000


async def test_stop_without_a_file(log):
    """A log that never came ends at once, without lines."""
    tail = Tail(log, poll_interval=60)
    tail.stop()
    assert [batch async for batch in tail.batches()] == []
    assert tail.position is None


@both
async def test_nothing_is_left_behind(made, mode):
    """Threads, descriptors and the file are given back, also by a reader that leaves early."""
    append(made, b"1\n")
    threads, files = threading.active_count(), open_files()
    async with contextlib.aclosing(Tail(made, watch=mode, poll_interval=INTERVAL).batches()) as batches:
        async for _ in batches:
            break
    assert threading.active_count() == threads
    assert open_files() == files


def test_interval_must_be_positive(log):
    """An interval that would never end or never wait is refused."""
    with pytest.raises(ValueError, match="poll_interval must be more than 0 seconds, not 0"):
        Tail(log, poll_interval=0)


async def read_on(path, start=None):
    tail = Tail(path, poll_interval=INTERVAL, start=start)
    tail.stop()
    return [line async for batch in tail.batches() for line in batch], tail.position


async def test_position_survives_a_restart(made):
    """A restarted follower goes on after the last line that was handed out, through JSON and back."""
    async with Follower(made) as follower:
        append(made, b"1\n2\nhal")
        await follower.has(b"1", b"2")
        position = follower.tail.position
    assert position.offset == 4
    append(made, b"f\n3\n")
    start = msgspec.json.decode(msgspec.json.encode(position), type=FilePosition)
    assert (await read_on(made, start))[0] == [b"half", b"3"]


@pytest.mark.parametrize("field", ["device", "inode", "offset", "check"])
async def test_position_of_another_file_is_not_used(made, field):
    """Another file, another content before the place, or a place beyond the end: read from the beginning."""
    append(made, b"1\n2\n")
    _, position = await read_on(made)
    append(made, b"3\n")
    assert (await read_on(made, position))[0] == [b"3"]
    wrong = msgspec.structs.replace(position, **{field: getattr(position, field) + 1000})
    assert (await read_on(made, wrong))[0] == [b"1", b"2", b"3"]
    below = msgspec.structs.replace(position, **{field: -1})
    assert (await read_on(made, below))[0] == [b"1", b"2", b"3"]


async def test_new_file_with_the_number_of_the_old_one(made):
    """A new file that got the inode number of a deleted one is told apart by its content."""
    append(made, b"old 1\nold 2\n")
    _, position = await read_on(made)
    made.write_bytes(b"new 1\nnew 2\nnew 3\n")  # the same inode
    assert (await read_on(made, position))[0] == [b"new 1", b"new 2", b"new 3"]


pieces = st.lists(st.sampled_from([b"loss=1.25", b"\n", b"\r", b"step 3", b"\n", b"\0", b"\xff"])).map(
    b"".join
)
operations = st.lists(
    st.tuples(st.sampled_from(["append", "append", "rotate", "truncate"]), pieces), max_size=8
)


@both
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=operations)
def test_complete_through_any_history(mode, operations):
    """Each complete line comes once and in order, through appends, rotations and truncations."""

    async def follow(path):
        expected, current = [], b""
        path.write_bytes(b"first\n")
        async with Follower(path, mode=mode) as follower:
            await follower.has(b"first")
            for number, (what, data) in enumerate(operations):
                marker = b"marker %d\n" % number
                if what == "append":
                    current += data + marker
                    append(path, data)
                    append(path, marker)
                else:
                    # Complete lines are read before the file goes; a half line at its end is lost with it.
                    if what == "rotate":
                        append(path, data)
                        expected += lines_of(current + data)
                        path.rename(path.with_suffix(f".{number}"))
                    else:
                        expected += lines_of(current)
                        os.truncate(path, 0)
                        await follower.until(lambda: follower.tail.position.offset == 0)
                    current = marker
                    append(path, marker)
                await follower.until(lambda marker=marker: follower.lines[-1].endswith(marker[:-1]))
        expected += lines_of(current)
        assert follower.lines == [b"first", *expected]

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(follow(Path(folder) / "log"))


def lines_of(data):
    complete = data.replace(b"\r", b"\n").replace(b"\0", b"").split(b"\n")[:-1]
    return [line for line in complete if line]
