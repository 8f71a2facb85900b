"""What is said of a job at once, which manager is meant, and that what others wrote is only text."""

import json
import os
import socket

import msgspec
import pytest
from rich.console import Console

from specon_manager.__main__ import main
from specon_manager.cli.output import LITERAL, console_for_results
from specon_manager.cli.remote.log_end import log_end
from specon_manager.cli.remote.state_directories import choose_only, directories_here
from specon_manager.cli.run.live_view import LiveView
from specon_manager.cli.run.notices import Notices
from specon_manager.model.cluster import Phase
from specon_manager.runtime.journal import NAME, Journal
from specon_manager.runtime.state_directory import Address
from specon_manager.runtime.tokens import write_private
from specon_manager.usage import UsageError

MARKUP = "root:x:0 [bold]:smile:[/bold]"


@pytest.fixture
def logged(scene, tmp_path):
    """Have a job run on this machine, and write its log."""
    name = scene.job("default/mine")
    folder = tmp_path / "replicas" / "default.mine.worker.0"

    def write(text, incarnation="1"):
        place = folder / "incarnations" / incarnation
        place.mkdir(parents=True, exist_ok=True)
        log = folder / "train.log"
        (place / "spec.json").write_text(json.dumps({"log": str(log), "environment": {"A": "B"}}))
        log.write_text(text)
        return log

    scene.running(name, metric=None)
    return name, write


def test_a_crash_shows_the_last_lines_of_the_log_and_its_path(scene, tmp_path, logged):
    """Once for each crash, without what steers a terminal; what befell an earlier run is not told again."""
    name, write = logged
    path = write("".join(f"line {number} {MARKUP}\x1b[2J\n" for number in range(9)))
    notices = Notices(tmp_path)
    assert notices.look(scene.state, 0.0) == []
    scene.replica(name, crashes=1, phase=Phase.FAILED)
    first, *lines = notices.look(scene.state, 1.0)
    assert first == f"mine crashed; the last lines of {path}:"
    assert lines == [f"    line {number} {MARKUP} [2J" for number in range(4, 9)]
    assert notices.look(scene.state, 2.0) == []
    assert notices.lines_to_show(scene.state, 3.0) == [first, *lines]
    assert notices.lines_to_show(scene.state, 100.0) == []
    assert Notices(tmp_path).look(scene.state, 0.0) == []


def test_half_a_minute_without_a_sample_proposes_a_pattern_once(scene, tmp_path, logged):
    """One that was tried on the log; not before, and not where samples come."""
    name, write = logged
    write("".join(f"it {number} toll {2 / (number + 1):.5f}\n" for number in range(50)))
    notices = Notices(tmp_path)
    assert notices.look(scene.state, 100.0) == notices.look(scene.state, 129.0) == []
    words, pattern = notices.look(scene.state, 130.0)
    assert "mine: no loss in 30 s of" in words
    assert "reads 50 samples, 2 to 0.04:" in words
    assert pattern == r'    pattern: "it (?P<step>\\d+) toll (?P<value>[-+.\\deE]+)"'
    assert notices.look(scene.state, 200.0) == []
    scene.running(name, step=3)
    other = Notices(tmp_path)
    assert other.look(scene.state, 0.0) == other.look(scene.state, 60.0) == []


def test_a_log_that_was_read_after_all_is_not_told_of_again(scene, tmp_path, logged):
    """A slow import costs half a minute: below the last picture stands only what is still true."""
    name, write = logged
    write("")
    notices = Notices(tmp_path)
    notices.look(scene.state, 0.0)
    unread = notices.look(scene.state, 30.0)
    assert notices.lines_to_show(scene.state, 31.0) == notices.last_lines(scene.state) == unread
    assert "0 lines in" in unread[0]
    scene.running(name, step=3)
    assert notices.lines_to_show(scene.state, 32.0) == notices.last_lines(scene.state) == []


def test_a_log_that_the_trainer_writes_itself_is_named(scene, tmp_path, logged, monkeypatch):
    """Where it prints nothing: the file that changes where it works; one of an earlier day is none."""
    _, write = logged
    write("")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    own = work / "mine.log"
    own.write_text("step 1 loss 3\n")

    def told():
        notices = Notices(tmp_path)
        notices.look(scene.state, 0.0)
        return notices.look(scene.state, 30.0)[1]

    assert told() == "    its trainer seems to write mine.log: name it in the job file (log: mine.log)"
    os.utime(own, (1.0, 1.0))
    assert "specon classify" in told()


def test_the_turns_of_others_are_not_counted(scene, tmp_path, logged):
    """Half a minute of a trainer's own time, not of the clock: a stopped trainer prints nothing."""
    name, write = logged
    write("hello\n")
    scene.running(name, metric=None, stopped=20.0)
    notices = Notices(tmp_path)
    assert notices.look(scene.state, 0.0) == notices.look(scene.state, 40.0) == []
    assert notices.look(scene.state, 50.0)


def test_a_log_without_numbers_says_what_was_seen(scene, tmp_path, logged):
    """There is no pattern, and no guess."""
    _, write = logged
    write("hello\nloading\n")
    notices = Notices(tmp_path)
    notices.look(scene.state, 0.0)
    first, second = notices.look(scene.state, 30.0)
    assert "2 lines in" in first
    assert "'loading'" in first
    assert "specon classify" in second


def test_what_is_no_log_is_passed_over(scene, tmp_path, logged):
    """No incarnation, a specification that is garbage, a log that is a pipe."""
    name, write = logged
    assert log_end(tmp_path, name) is None
    assert log_end(tmp_path, "../../etc") is None
    path = write("x\n")
    path.unlink()
    os.mkfifo(path)
    assert log_end(tmp_path, name) is None
    for spec in path.parent.glob("incarnations/*/spec.json"):
        spec.write_text("{")
    assert log_end(tmp_path, name) is None


def made(path, port=9, pid=1):
    path.mkdir(mode=0o700)
    address = Address(url=f"http://127.0.0.1:{port}", pid=pid, port=port)
    (path / "manager.json").write_bytes(msgspec.json.encode(address))
    write_private(path / "token", "t")
    return path


def test_explain_shows_how_the_log_of_a_crashed_job_ends(scene, tmp_path, monkeypatch, capsys, logged):
    """It shows that after the end of the manager, too; as text and as JSON."""
    monkeypatch.chdir(tmp_path)
    name, write = logged
    scene.replica(name, crashes=1, phase=Phase.FAILED)
    directory = made(tmp_path / "jobs.specon")
    journal = Journal(directory / NAME, began_at=scene.began, version="test")
    journal.begin(scene.state)
    journal.close()
    path = write(f"{MARKUP}\n")
    (tmp_path / "replicas").rename(directory / "replicas")
    moved = directory / "replicas" / "default.mine.worker.0"
    spec = moved / "incarnations" / "1" / "spec.json"
    spec.write_text(spec.read_text().replace(str(path.parent), str(moved)))
    assert main(["explain", "mine", "--no-forecast"]) == 0
    assert f"  the last lines of {moved}/train.log:\n    {MARKUP}\n" in capsys.readouterr().out
    assert main(["explain", "mine", "--no-forecast", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["logs"][name]["lines"] == [MARKUP]


def test_of_several_directories_the_live_one_is_meant(tmp_path, monkeypatch):
    """By its process and its port; where none or several are live they are named."""
    monkeypatch.chdir(tmp_path)
    assert choose_only(directories_here()) is None
    made(tmp_path / "a.specon")
    assert str(choose_only(directories_here())) == "a.specon"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        made(tmp_path / "b.specon", port, os.getpid())
        assert str(choose_only(directories_here())) == "b.specon"
        made(tmp_path / "c.specon", port, os.getpid())
        with pytest.raises(UsageError, match=r"several managers are at work here: b\.specon, c\.specon"):
            choose_only(directories_here())
    with pytest.raises(UsageError, match="no manager is at work in those found here: a"):
        choose_only(directories_here())


def test_the_directory_of_an_observer_is_never_meant_by_itself(tmp_path, monkeypatch):
    """Who has looked at a cluster first, and asks about it later in the same folder, means the cluster."""
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "observe.specon")
    assert choose_only(directories_here()) is None
    made(tmp_path / "a.specon")
    assert str(choose_only(directories_here())) == "a.specon"


def test_what_stands_in_a_log_is_never_interpreted(scene, capsys):
    """`root:x:0` stays what it is, as text, as a cell, in a picture; so does what looks like markup."""
    console_for_results().print(MARKUP)
    assert MARKUP in capsys.readouterr().out
    name = scene.job()
    scene.running(name)
    console = Console(**LITERAL, width=100, height=30, record=True, force_terminal=True)
    view = LiveView(MARKUP, began=scene.began, console=console)
    view.update(scene.state, scene.began, "", [f"    {MARKUP}"])
    console.print(view._last)
    shown = console.export_text()
    assert shown.count(MARKUP) == 2
