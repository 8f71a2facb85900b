"""`specon replay`: a damaged journal is named, and cut after its last good line."""

import pytest

from specon_manager.__main__ import main
from specon_manager.model import events as ev
from specon_manager.runtime.journal import NAME, Journal, JournalError, recover
from specon_manager.runtime.state_directory import StateDirectory
from support.decisions.cluster import Cluster


@pytest.fixture
def path(tmp_path):
    """Give the journal of a run with ten steps."""
    cluster = Cluster()
    cluster.run("a")
    journal = Journal(tmp_path / NAME, began_at=0.0, version="test")
    journal.begin(cluster.initial)
    for now, event, actions in cluster.history:
        journal.append(now, event, actions)
    journal.close()
    return tmp_path / NAME


def damage(path, line):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"now":', b'"now":1', 1).replace(b'"at":', b'"at":1', 1)
    path.write_bytes(b"".join(lines))


def test_what_is_good_is_kept_and_what_is_damaged_put_aside(path, capsys):
    """The next manager goes on after the last good line; the damaged journal is still there."""
    damage(path, 4)
    damaged = path.read_bytes()
    assert main(["replay", str(path)]) == 2
    assert f"{path}, line 4: " in (said := capsys.readouterr().err)
    assert f"specon replay --cut {path}" in said
    assert main(["replay", "--cut", str(path)]) == 0
    assert "3 good lines are kept" in capsys.readouterr().out
    recovered = recover(path)
    assert recovered is not None
    assert recovered.steps == 2
    assert path.with_name(f"{NAME}.damaged-1").read_bytes() == damaged
    journal = Journal(path, began_at=0.0, version="test")
    journal.append(recovered.last_at, ev.Tick(), [])
    journal.close()
    assert main(["replay", str(path.parent)]) == 0


def test_a_good_journal_is_left_alone(path, capsys):
    """Nothing is cut off, and no second file made."""
    before = path.read_bytes()
    assert main(["replay", "--cut", str(path.parent)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.damaged*"))


def test_a_journal_without_a_good_line_is_not_cut(path, capsys):
    """There is nothing to go on from."""
    damage(path, 1)
    assert main(["replay", "--cut", str(path)]) == 2
    assert "nothing in it can be used" in capsys.readouterr().err
    with pytest.raises(JournalError):
        recover(path)


def test_the_journal_of_a_running_manager_is_not_cut(path, capsys):
    """It would go on writing to what was put aside."""
    damage(path, 4)
    running = StateDirectory(path.parent)
    assert main(["replay", "--cut", str(path)]) == 2
    assert "is in use by" in capsys.readouterr().err
    running.release()


def test_no_journal_is_no_traceback(tmp_path, capsys):
    """The operating system's words, with the path."""
    assert main(["replay", "--cut", str(tmp_path / NAME)]) == 2
    assert f"{tmp_path / NAME}: No such file" in capsys.readouterr().err
