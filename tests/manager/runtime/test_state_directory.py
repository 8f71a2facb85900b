"""A manager's directory: one manager at a time, and where the others find it."""

import os
import stat
import subprocess
import sys

import pytest

from specon_manager.runtime.state_directory import DirectoryBusyError, StateDirectory, read_address


def test_a_second_manager_is_refused_and_told_of_the_first(tmp_path):
    """The refusal names the directory, the manager that has it, and where that one is reached."""
    first = StateDirectory(tmp_path)
    with pytest.raises(DirectoryBusyError, match=f"{tmp_path} is in use by another manager"):
        StateDirectory(tmp_path)
    first.publish("127.0.0.1", 4711)
    with pytest.raises(DirectoryBusyError, match=f"manager {os.getpid()} at http://127.0.0.1:4711"):
        StateDirectory(tmp_path)
    first.release()


def test_a_directory_that_was_released_is_free(tmp_path):
    """The next manager finds the port of the last, for running sidecars report to it."""
    first = StateDirectory(tmp_path)
    assert first.former_port() == 0
    first.publish("127.0.0.1", 4711)
    first.release()
    second = StateDirectory(tmp_path)
    assert second.former_port() == 4711
    second.release()


def test_a_manager_that_is_killed_lets_go(tmp_path):
    """The kernel releases the lock of a process that is gone, be it by kill -9."""
    program = (
        "import os, pathlib, signal, sys\n"
        "from specon_manager.runtime.state_directory import StateDirectory\n"
        "held = StateDirectory(pathlib.Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    assert killed.returncode == -9
    StateDirectory(tmp_path).release()


def test_a_missing_directory_is_made_and_is_private(tmp_path):
    """It is for its owner only: it holds the key, and the environments of jobs."""
    path = tmp_path / "deep" / "state"
    directory = StateDirectory(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    address = directory.publish("127.0.0.1", 1)
    assert read_address(path) == address
    assert stat.S_IMODE((path / "manager.json").stat().st_mode) == 0o600
    directory.release()


def test_a_path_that_is_no_directory_is_an_error(tmp_path):
    """The error of the operating system names the path."""
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(OSError, match=f"it is a file, and no directory: '{path}'"):
        StateDirectory(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"url":"http://x","pid":1}',
        b'{"url":"http://x","pid":1,"port":"4711"}',
        b'{"url":"http://x","pid":1,"port":-1}',
        b'{"url":"http://x","pid":1,"port":65536}',
        b'{"url":"\xff","pid":1,"port":1}',
        b"[" * 100_000,
    ],
)
def test_an_address_that_cannot_be_read_is_none(tmp_path, content):
    """Garbage, or a port that is none, says nothing about where the manager is, and stops nobody."""
    (tmp_path / "manager.json").write_bytes(content)
    assert read_address(tmp_path) is None
    directory = StateDirectory(tmp_path)
    assert directory.former_port() == 0
    with pytest.raises(DirectoryBusyError, match="another manager"):
        StateDirectory(tmp_path)
    directory.release()


def test_where_no_manager_was_there_is_no_address(tmp_path):
    """A missing directory is not an error for those who look for a manager."""
    assert read_address(tmp_path / "missing") is None
