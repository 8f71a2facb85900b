"""Events wake; the watching ends without a trace."""

import errno
import os
import threading
from pathlib import Path

import pytest

from specon_sidecar.following import watch as watch_module
from specon_sidecar.following.watch import Watch, nearest_directory, resolve_mode

MODES = ("inotify", "polling")
DEADLINE = 10


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


class Wakes:
    """Counts calls, and lets a test wait for the next one."""

    def __init__(self):
        self.count = 0
        self._event = threading.Event()

    def __call__(self):
        self.count += 1
        self._event.set()

    def wait(self):
        assert self._event.wait(DEADLINE)
        self._event.clear()


@pytest.fixture
def wakes():
    return Wakes()


@pytest.fixture
def problems():
    return []


@pytest.fixture
def make(tmp_path, wakes, problems):
    made = []

    def make_watch(mode, path=tmp_path / "log"):
        made.append(Watch(path, wakes, mode=mode, poll_interval=0.02, on_problem=problems.append))
        return made[-1]

    yield make_watch
    for one in made:
        one.close()


@pytest.mark.parametrize("mode", MODES)
def test_creation_growth_and_removal_wake(tmp_path, make, wakes, mode):
    """Whatever changes the file wakes."""
    log = tmp_path / "log"
    assert make(mode).arm()
    log.write_bytes(b"one\n")
    wakes.wait()
    with log.open("ab") as writer:
        writer.write(b"two\n")
    wakes.wait()
    log.rename(tmp_path / "log.1")
    wakes.wait()


@pytest.mark.parametrize("mode", MODES)
def test_directories_that_appear_late(tmp_path, make, wakes, mode):
    """The nearest existing directory is watched, and `arm` moves nearer as they appear."""
    log = tmp_path / "a" / "b" / "log"
    watch = make(mode, log)
    assert watch.arm()
    assert not watch.arm()
    log.parent.parent.mkdir()
    wakes.wait()
    assert watch.arm()
    log.parent.mkdir()
    wakes.wait()
    assert watch.arm()
    log.write_bytes(b"x\n")
    wakes.wait()


@pytest.mark.parametrize("mode", MODES)
def test_directory_that_is_made_anew(tmp_path, make, wakes, mode):
    """After its directory was removed and made again, `arm` watches the new one."""
    log = tmp_path / "a" / "log"
    log.parent.mkdir()
    watch = make(mode, log)
    watch.arm()
    log.parent.rmdir()
    wakes.wait()
    log.parent.mkdir()
    assert watch.arm()
    log.write_bytes(b"x\n")
    wakes.wait()


def test_reading_and_other_files_do_not_wake(tmp_path, make, wakes):
    """Opening, reading and closing the file, or writing to another one, wakes nobody."""
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    make("inotify").arm()
    for _ in range(20):
        log.read_bytes()
    (tmp_path / "checkpoint").write_bytes(bytes(10_000))
    log.unlink()  # events keep their order: all before this one have been handled when it wakes
    wakes.wait()
    assert wakes.count == 1


def test_disarmed_watch_is_silent(tmp_path, make, wakes):
    """What happens between `disarm` and `arm` wakes nobody; what happens afterwards does."""
    log = tmp_path / "log"
    watch = make("inotify")
    watch.arm()
    watch.disarm()
    assert not watch.armed
    log.write_bytes(b"one\n")
    assert watch.arm()
    log.unlink()
    wakes.wait()
    assert wakes.count == 1


def test_falls_back_to_polling_without_inotify(tmp_path, make, wakes, problems, monkeypatch):
    """Where the limits of inotify are reached, polling takes its place, and a note says so."""

    def refuse(**_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(watch_module, "Observer", refuse)
    watch = make("inotify")
    assert watch.arm()
    assert watch.mode == "polling"
    assert problems == ["inotify is not available: [Errno 24] Too many open files; polling instead"]
    (tmp_path / "log").write_bytes(b"x\n")
    wakes.wait()


def test_falls_back_when_the_watch_is_refused(tmp_path, make, wakes, problems, monkeypatch):
    """The limit of watches shows only when the directory is added: the next call then polls."""
    monkeypatch.setattr(
        "watchdog.observers.inotify.InotifyEmitter.on_thread_start",
        lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "inotify watch limit reached")),
    )
    watch = make("inotify")
    assert not watch.arm()
    assert watch.arm()
    assert watch.mode == "polling"
    assert len(problems) == 1
    (tmp_path / "log").write_bytes(b"x\n")
    wakes.wait()


def test_directory_that_cannot_be_watched_is_a_problem_once(make, problems, monkeypatch):
    """A directory that refuses to be watched is reported once, not at each attempt."""
    monkeypatch.setattr(
        "watchdog.observers.inotify.InotifyEmitter.on_thread_start",
        lambda _: (_ for _ in ()).throw(PermissionError(errno.EACCES, "Permission denied")),
    )
    watch = make("inotify")
    assert [watch.arm() for _ in range(3)] == [False] * 3
    assert len(problems) == 1
    assert "Permission denied" in problems[0]


@pytest.mark.parametrize("mode", MODES)
def test_threads_and_files_are_given_back(tmp_path, wakes, mode):
    """After `close` no thread and no descriptor is left."""
    threads, files = threading.active_count(), open_files()
    for _ in range(5):
        watch = Watch(tmp_path / "log", wakes, mode=mode, poll_interval=0.02, on_problem=lambda _: None)
        watch.arm()
        (tmp_path / "log").write_bytes(b"x")
        wakes.wait()
        watch.disarm()
        watch.arm()
        watch.close()
        (tmp_path / "log").unlink()
    assert threading.active_count() == threads
    assert open_files() == files


def test_nearest_directory(tmp_path):
    """Files on the way are passed over; the numbers are those of the directory found."""
    (tmp_path / "file").touch()
    status = tmp_path.stat()
    found = str(tmp_path), (status.st_dev, status.st_ino)
    assert nearest_directory(tmp_path / "log") == found
    assert nearest_directory(tmp_path / "file" / "x" / "log") == found


def test_mode_of_a_network_volume(tmp_path, monkeypatch):
    """`auto` means polling on a network volume, else inotify."""
    kinds = iter(["nfs4", "ext4"])
    monkeypatch.setattr(watch_module, "file_system_type", lambda *_: next(kinds))
    assert resolve_mode(tmp_path / "log") == "polling"
    assert resolve_mode(tmp_path / "log") == "inotify"
