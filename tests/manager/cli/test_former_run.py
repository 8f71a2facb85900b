"""Job files that were run before: what changed is named, and `--fresh` deletes nothing."""

import msgspec
import pytest

from specon_manager.backends.local.jobs import LocalJob, job_spec
from specon_manager.cli.run.former_run import remarks
from specon_manager.cli.run.put_aside import put_aside
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.events import JobSubmitted
from specon_manager.runtime.journal import NAME, Journal, recover
from specon_manager.runtime.ownership import NotOursError
from specon_manager.runtime.state_directory import DirectoryBusyError, StateDirectory
from specon_manager.usage import UsageError

A = LocalJob(name="a", command=("train", "--width", "1"), interval=5.0)
B = LocalJob(name="b", command="train")


def known(*jobs, ended=()):
    """Return the state of an earlier run as its journal gives it back."""
    state = State()
    for job in jobs:
        state, _ = step(state, JobSubmitted(job_spec(job)), 1.0)
    over = {
        name: msgspec.structs.replace(job, ended_at=2.0) for name, job in state.jobs.items() if name in ended
    }
    state = msgspec.structs.replace(state, jobs={**state.jobs, **over})
    return msgspec.json.decode(msgspec.json.encode(state.flatten()), type=State)


def test_a_first_run_has_nothing_to_say():
    """And neither has one that goes on where it was."""
    assert list(remarks([A, B], State())) == []
    assert list(remarks([A, B], known(A, B))) == []


def test_what_ended_is_named_as_not_run_again():
    """An earlier run has brought it to its end."""
    assert list(remarks([A, B], known(A, B, ended={"default/a"}))) == [
        "not run again, for an earlier run brought them to their end: a"
    ]


def test_what_was_changed_is_named_field_by_field():
    """Silently running nothing, or the old command, would be a puzzle."""
    edited = msgspec.structs.replace(A, command=("train", "--width", "2"), interval=9.0, job_class="trial")
    values = [
        "command of job a: train --width 1 is now train --width 2",
        "interval of job a: 5.0 is now 9.0",
        "class of job a: best-effort is now trial",
    ]
    assert list(remarks([edited, B], known(A, B, ended={"default/a"}))) == [
        "job a: command, interval, class changed since it was submitted: it has ended, and is not run again",
        *values,
    ]
    assert list(remarks([edited, B], known(A, B))) == [
        "job a: command, interval, class changed since it was submitted: it continues as it was submitted",
        *values,
    ]


def test_values_of_an_environment_are_not_shown():
    """They may be secrets."""
    edited = msgspec.structs.replace(A, environment={"TOKEN": "hunter2"})
    [line] = remarks([edited], known(A))
    assert "environment changed" in line


def test_what_is_new_in_the_file_and_what_is_gone_from_it_is_named():
    """The first runs for the first time, the second goes on where it has not ended."""
    assert list(remarks([A, B], known(A))) == ["run for the first time: b"]
    assert list(remarks([A], known(A, B))) == ["not in the job file, and they go on: b"]
    assert list(remarks([A], known(A, B, ended={"default/b"}))) == []


def test_what_a_later_version_may_set_has_not_changed():
    """A journal of an earlier version lacks what came later."""
    state = known(A)
    job = state.jobs["default/a"]
    template = {key: value for key, value in job.spec.template.items() if key not in {"priority", "queue"}}
    spec = msgspec.structs.replace(job.spec, template=template)
    state = msgspec.structs.replace(state, jobs={job.name: msgspec.structs.replace(job, spec=spec)})
    assert list(remarks([A], state)) == []
    spec = msgspec.structs.replace(job.spec, template={"name": 1})
    state = msgspec.structs.replace(state, jobs={job.name: msgspec.structs.replace(job, spec=spec)})
    assert list(remarks([A], state)) == [
        "job a: its description changed since it was submitted: it continues as it was submitted"
    ]


@pytest.fixture
def former(tmp_path):
    """Give the directory of an earlier run."""
    directory = tmp_path / "jobs.specon"
    StateDirectory(directory).release()
    journal = Journal(directory / NAME, began_at=0.0, version="test")
    journal.begin(known(A))
    journal.close()
    return directory


def test_an_earlier_run_is_put_aside_whole(former):
    """Each under a name of its own, and what is there afterwards is nothing."""
    before = (former / NAME).read_bytes()
    aside = put_aside(former)
    assert aside == former.with_name("jobs.specon.before-1")
    assert (aside / NAME).read_bytes() == before
    assert recover(aside / NAME) is not None
    assert not former.exists()
    aside.rename(former)
    aside.with_name("jobs.specon.before-1").symlink_to("nowhere")
    assert put_aside(former) == former.with_name("jobs.specon.before-2")


def test_where_nothing_is_there_is_nothing_to_put_aside(tmp_path):
    """No directory, and an empty one."""
    assert put_aside(tmp_path / "jobs.specon") is None
    (tmp_path / "jobs.specon").mkdir()
    assert put_aside(tmp_path / "jobs.specon") is None


def test_what_is_no_state_directory_stays_where_it_is(tmp_path):
    """`--state ~ --fresh` moves nobody's home."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").touch()
    with pytest.raises(UsageError, match=rf"--fresh: {home} is no state directory"):
        put_aside(home)
    assert [path.name for path in home.iterdir()] == ["thesis.tex"]


def test_the_directory_of_a_running_manager_stays(former):
    """It is told who has it."""
    running = StateDirectory(former)
    with pytest.raises(DirectoryBusyError):
        put_aside(former)
    running.release()
    assert (former / NAME).exists()


def test_the_directory_of_somebody_else_stays(former):
    """As everything does that others may write."""
    former.chmod(0o777)
    with pytest.raises(NotOursError):
        put_aside(former)
