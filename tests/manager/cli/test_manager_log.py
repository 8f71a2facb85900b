"""The log of a local manager: bounded, quiet about what repeats, and harmless on a full disk."""

import errno
import logging
import os
import stat

import pytest

from specon_manager.cli.run import manager_log
from specon_manager.cli.run.manager_log import NAME, ManagerLog, log_to

LOG = logging.getLogger("test_manager_log")
LOG.propagate = False
LOG.setLevel(logging.INFO)


class Written:
    """A log on a clock that a test sets."""

    def __init__(self, folder, **options):
        self.now = 0.0
        self.path = folder / NAME
        self.handler = ManagerLog(self.path, clock=lambda: self.now, **options)
        LOG.addHandler(self.handler)

    def lines(self):
        return self.path.read_text().splitlines()

    def close(self):
        LOG.removeHandler(self.handler)
        self.handler.close()


@pytest.fixture
def written(tmp_path):
    written = Written(tmp_path)
    yield written
    written.close()


def complain(number, error=None):
    LOG.warning("request %d is wrong", number, exc_info=error)


def test_of_what_repeats_a_few_are_written_and_how_many_more_there_were(written):
    """A thousand warnings of one place in the code make 21 lines a minute, tracebacks or not."""
    for number in range(1000):
        complain(number)
    assert len(written.lines()) == 20
    written.now = 60.0
    LOG.warning("another")
    assert len(written.lines()) == 22
    assert written.lines()[20].endswith("request 0 is wrong (980 more like this within 60 s are left out)")
    complain(1000)
    assert written.lines()[-1].endswith("request 1000 is wrong")


def test_a_traceback_is_repeated_no_more_than_a_line(written):
    """What is told at the end is one line."""
    for number in range(50):
        complain(number, ValueError("bad"))
    LOG.removeHandler(written.handler)
    written.handler.close()
    assert sum("ValueError: bad" in line for line in written.lines()) == 20
    assert "30 more like this" in written.lines()[-1]


def test_decisions_are_never_left_out(written):
    """What is told for information has no bound but that of the files."""
    for number in range(200):
        LOG.info("StartReplica %d", number)
    assert len(written.lines()) == 200


def test_the_files_have_a_bound(tmp_path):
    """However much is told, there are two files of a bounded size, and the latest lines are there."""
    written = Written(tmp_path, most_bytes=2000)
    for number in range(1000):
        LOG.info("line %d", number)
    written.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [NAME, f"{NAME}.1"]
    assert all(file.stat().st_size <= 2000 for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert written.lines()[-1].endswith("line 999")
    Written(tmp_path, most_bytes=2000).close()
    assert written.lines()[-1].endswith("line 999")


def test_a_full_disk_is_survived_and_told_of_afterwards(written, monkeypatch, capsys):
    """Nothing is raised, nothing goes to the terminal, and the gap is named when there is room again."""
    write = os.write

    def full(descriptor, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manager_log.os, "write", full)
    for number in range(3):
        LOG.info("line %d", number)
    monkeypatch.setattr(manager_log.os, "write", write)
    LOG.info("line 3")
    assert written.lines()[0] == "(3 lines could not be written)"
    assert written.lines()[1].endswith("line 3")
    assert capsys.readouterr().err == ""


def test_strange_text_is_written_as_far_as_it_goes(written):
    """What is no UTF-8 ends no log."""
    # Not by a logger: whatever else listens to one may take less.
    record = {"levelno": logging.INFO, "msg": "\udcff %s", "args": ("\udc00",)}
    written.handler.handle(logging.makeLogRecord(record))
    assert written.lines()[0].endswith("\\udcff \\udc00")


def test_what_a_person_must_see_goes_to_the_terminal_too(tmp_path, capsys):
    """And nothing else does."""
    level = logging.getLogger().level
    with log_to(tmp_path):
        logging.getLogger("specon").warning("hidden")
        logging.getLogger("specon").critical("the disk is full")
    assert capsys.readouterr().err == "specon: the disk is full\n"
    assert logging.getLogger().level == level
    assert len((tmp_path / NAME).read_text().splitlines()) == 2
