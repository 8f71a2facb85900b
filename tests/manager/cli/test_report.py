"""`specon report`: what a manager did, from its journal, and what cannot be known without one."""

import json

import msgspec
import pytest

from specon_manager.__main__ import main
from specon_manager.cli.look.bundle import archive
from specon_manager.cli.look.report_journal import read_journal
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.events import MoveRequested, Tick
from specon_manager.model.resources import Resources
from specon_manager.model.transactions import TransactionState
from specon_manager.runtime.journal import NAME, Journal, recover
from specon_manager.runtime.state_directory import Address
from specon_manager.runtime.tokens import write_private
from specon_sidecar.wire import Checkpoint

HOUR = 3600.0
FIELDS = {"step": 5, "checkpoint": Checkpoint(step=5, path="/x", digest="0" * 64)}


@pytest.fixture
def served(scene, tmp_path):
    """Return a directory with a journal: three jobs share a node, one moves away, and one moved before."""
    names = [scene.job(f"default/{name}") for name in ("a", "b", "c", "d", "e")]
    for name, node in zip(names, ("node-0", "node-0", "node-0", "node-1", "node-1"), strict=True):
        scene.running(name, node=node, **FIELDS)
    job = scene.state.jobs["default/e"]
    spec = msgspec.structs.replace(job.spec, requests=Resources(cpu=0.5))
    scene._set(jobs={**scene.state.jobs, "default/e": msgspec.structs.replace(job, spec=spec)})
    began, now = scene.began, scene.began + 3 * HOUR
    scene.move(
        names[4],
        TransactionState.SUCCEEDED,
        id="move-7",
        at=HOUR - 60,
        ended_at=began + HOUR,
        downtime=2.5,
        steps_lost=3,
    )
    scene.move(names[3], TransactionState.ROLLED_BACK, id="move-8", at=HOUR, ended_at=began + HOUR)
    directory = tmp_path / "jobs.specon"
    directory.mkdir(mode=0o700)
    address = Address(url="http://127.0.0.1:9", pid=1, port=9)  # where nobody listens
    (directory / "manager.json").write_bytes(msgspec.json.encode(address))
    write_private(directory / "token", "t")
    journal = Journal(directory / NAME, began_at=began, version="test")
    journal.begin(scene.state)
    event = MoveRequested(id="wanted", replica=names[0], target="node-1")
    after, actions = step(scene.state, event, now - HOUR)
    assert after.transactions
    journal.append(now - HOUR, event, actions)
    later = MoveRequested(id="", replica=names[1])
    journal.append(now, later, step(after, later, now)[1])
    journal.close()
    return directory


def report(directory, capsys, *words):
    assert main(["report", "--directory", str(directory), *words]) == 0
    return capsys.readouterr().out


def test_moves_hours_and_costs_are_counted_from_the_journal(served, capsys):
    """Those of the time that was asked for; hours until the job ended, or now."""
    told = json.loads(report(served, capsys, "-o", "json"))
    assert (told["moves"], told["moves_by_outcome"]) == (1, {"Succeeded": 1, "RolledBack": 1})
    assert (told["downtime_seconds"], told["longest_downtime_seconds"], told["steps_lost"]) == (2.5, 2.5, 3)
    assert (told["replica_hours_freed"], told["cpu_hours_freed"], told["gpu_hours_freed"]) == (2.0, 1.0, None)
    assert any("GPU-hours freed are not known" in each for each in told["unknown"])
    assert json.loads(report(served, capsys, "-o", "json", "--since", "90m"))["moves"] == 0


def test_helped_and_hurt_are_what_was_forecast_when_it_was_decided(served, capsys):
    """By the shares of cores that the gate weighs; a move that has not ended counts for nothing yet."""
    told = read_journal(served / NAME, HOUR * 24)
    [forecast] = told.forecasts.values()
    assert {job: change > 0 for job, change in forecast.items()} == {
        "default/b": True,
        "default/c": True,
        "default/d": False,
        "default/e": False,
    }
    text = report(served, capsys)
    assert "jobs helped, by the forecast when it was decided  0" in text


def test_a_long_journal_says_how_far_it_was_read(tmp_path):
    """A report of months is no silence: the time of every thousandth step is told, nothing of a short one."""
    journal = Journal(tmp_path / NAME, began_at=0.0, version="test")
    journal.begin(State())
    for number in range(2500):
        journal.append(float(number), Tick(), ())
    journal.close()
    told = []
    read_journal(tmp_path / NAME, HOUR, progress=told.append)
    assert told == [998.0, 1998.0]


@pytest.mark.parametrize("output", ["text", "markdown", "html"])
def test_each_form_says_the_same_and_what_is_not_known(served, capsys, output):
    """Text, Markdown and a page; names of others are quoted in each."""
    said = report(served, capsys, "-o", output)
    assert "1 succeeded (all: 1 RolledBack, 1 Succeeded)" in said
    assert "2.0 replica-hours" in said
    assert "2.5 s in all, at most 2.5 s" in said
    assert "GPU-hours freed are not known" in said
    if output == "html":
        assert said.count("<svg ") == 2
        assert "<script" not in said
        assert said.count("<rect ") == 3
        assert "e</td><td>move: node-0 -&gt; node-1</td>" in said


def test_a_page_escapes_what_others_wrote(scene, tmp_path, capsys):
    """A reason, a note and a name are text, and never markup."""
    name = scene.job()
    scene.running(name, **FIELDS)
    told = {"reason": "<script>x</script>", "note": "|*`", "ended_at": scene.began + 9}
    scene.move(name, TransactionState.FAILED, **told)
    path = tmp_path / "b.tar.gz"
    path.write_bytes(archive({"state.json": msgspec.json.encode(scene.state)}))
    assert main(["report", "--bundle", str(path), "-o", "html"]) == 0
    page = capsys.readouterr().out
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert main(["report", "--bundle", str(path)]) == 0
    text = capsys.readouterr().out
    assert "not known: only the journal of a manager of this machine tells them" in text


@pytest.mark.parametrize("span", ["7", "0d", "-1h", "x", "9999999d"])
def test_a_span_that_is_none_is_refused(span, capsys):
    """With what one looks like."""
    with pytest.raises(SystemExit):
        main(["report", f"--since={span}"])
    assert "is no span such as 90m, 12h or 7d" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", [False, True])
def test_older_files_of_a_journal_are_read_and_a_damaged_one_is_said(served, capsys, damaged):
    """What was decided before the present file counts; nothing is made up where that cannot be read."""
    path = served / NAME
    found = recover(path)
    journal = Journal(path, began_at=found.began_at, version="test")
    journal.begin_anew(found.state, found.last_at)
    journal.close()
    if damaged:
        path.with_name(f"{NAME}.1").write_bytes(b"{}\n")
        told = json.loads(report(served, capsys, "-o", "json"))
        assert (told["moves"], told["helped"]) == (1, None)
        assert any("the journal is not read" in each for each in told["unknown"])
    else:
        assert len(read_journal(path, HOUR * 24).forecasts) == 1
        assert json.loads(report(served, capsys, "-o", "json"))["helped"] == []


def test_each_line_of_the_journal_of_an_ended_manager_is_stepped_once(served, capsys, monkeypatch):
    """The state at its end and what happened until then are taken from the same reading."""
    events = []

    def count(state, event, now):
        events.append(event)
        return step(state, event, now)

    for module in ("specon_manager.cli.look.report_journal", "specon_manager.runtime.journal"):
        monkeypatch.setattr(f"{module}.step", count)
    report(served, capsys)
    assert len(events) == 2
