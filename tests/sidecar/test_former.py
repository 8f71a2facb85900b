"""How far the incarnation before came, as its log shows it: the manager may have heard less."""

import json
import os
import time
from pathlib import Path

import msgspec
import pytest

from specon_sidecar.at_start import LogAtStart, look_at_log
from specon_sidecar.observing.resume import begin
from specon_sidecar.observing.state_file import save
from specon_sidecar.settings import Settings

LINES = b"".join(b"step: %d loss: %f\n" % (step, 9.0 / step) for step in range(1, 41))


@pytest.fixture
def settings(tmp_path):
    return Settings(
        replica="default/a/worker/0",
        incarnation="2",
        log=str(tmp_path / "log"),
        format="key-value",
        state_file=str(tmp_path / "state"),
        fresh_from=None,
    )


def reported(observer, now):
    return observer.report(now, replica="default/a/worker/0", incarnation="2", session="s")


def write(log: Path, *, age: float) -> None:
    log.write_bytes(LINES)
    os.utime(log, (time.time() - age,) * 2)


def test_the_last_step_of_the_log_is_told_with_its_age(settings):
    """The log was written to 30 s ago, whatever the manager has heard of it."""
    write(Path(settings.log), age=30.0)
    former = reported(begin(settings, 100.0).observer, 105.0).former
    assert former.step == 40
    assert former.age == pytest.approx(35.0, abs=2.0)


def test_it_is_what_the_state_knows_where_the_log_was_read_to_its_end(settings):
    """A former sidecar took the lines: nothing of them is read twice."""
    write(Path(settings.log), age=30.0)
    first = begin(msgspec.structs.replace(settings, incarnation="1"), 0.0)
    assert reported(first.observer, 0.0).former.step == 40
    save(first.observer.state(10.0, "1", first.start), Path(settings.state_file))
    assert reported(begin(settings, 100.0).observer, 100.0).former.step == 40


def test_the_next_sidecar_of_an_incarnation_goes_on_with_it(settings):
    """What this incarnation trained since is no step of the one before."""
    write(Path(settings.log), age=30.0)
    began = begin(settings, 100.0)
    began.observer.take([b"step: 38 loss: 0.2", b"step: 77 loss: 0.1"], 110.0)
    state = began.observer.state(120.0, "2", began.start)
    save(state, Path(settings.state_file))
    written = json.loads(Path(settings.state_file).read_bytes())
    assert written["former"]["step"] == 40
    former = reported(begin(settings, 130.0).observer, 130.0).former
    assert former.step == 40
    assert former.age == pytest.approx(60.0, abs=2.0)


def test_nothing_is_told_of_a_log_that_this_incarnation_writes_already(settings):
    """When the former one wrote last is not known then."""
    write(Path(settings.log), age=0.0)
    began = begin(msgspec.structs.replace(settings, fresh_from=len(LINES) // 2), 100.0)
    assert reported(began.observer, 100.0).former is None


def test_nothing_is_told_of_the_first_incarnation(settings):
    """Its log is not there yet."""
    assert reported(begin(settings, 100.0).observer, 100.0).former is None


def test_what_a_quick_trainer_writes_while_its_sidecar_starts_is_its_own(settings):
    """The size of the log at the start is where the incarnation before ended; its time is kept."""
    log = Path(settings.log)
    write(log, age=30.0)
    size, changed_at = look_at_log([f"--log={log}", "--fresh-from=now"])
    with log.open("ab") as file:
        file.write(b"step: 38 loss: 0.2\nstep: 39 loss: 0.2\n")
    began = begin(msgspec.structs.replace(settings, fresh_from=size, fresh_since=changed_at), 100.0)
    former = reported(began.observer, 105.0).former
    assert former.step == 40
    assert former.age == pytest.approx(35.0, abs=2.0)
    assert began.start.offset == size


def test_a_log_that_was_not_there_at_the_start_is_all_of_this_incarnation(settings):
    """Nobody wrote it before: nothing is said of an incarnation before."""
    size, changed_at = look_at_log([f"--log={settings.log}", "--fresh-from=now"])
    assert (size, changed_at) == (0, None)
    Path(settings.log).write_bytes(LINES)
    began = begin(msgspec.structs.replace(settings, fresh_from=size, fresh_since=changed_at), 100.0)
    assert reported(began.observer, 105.0).former is None
    assert began.start.offset == 0


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--log", "LOG", "--fresh-from", "now"], LogAtStart(len(LINES), 1000.0)),
        (["--log=LOG", "--fresh-from=now", "--heartbeat=1"], LogAtStart(len(LINES), 1000.0)),
        (["--log=LOG", "--fresh-from=12"], None),
        (["--log=LOG"], None),
        (["--fresh-from=now"], None),
        (["--log=FOLDER", "--fresh-from=now"], None),
        (["--log=\0", "--fresh-from=now"], None),
        (["--fresh-from=now", "--log"], None),
    ],
)
def test_it_looks_where_the_flags_say_so(tmp_path, flags, found):
    """A folder is left to those who know which log it means; what is no path, to the settings."""
    log = tmp_path / "log"
    log.write_bytes(LINES)
    os.utime(log, (1000.0, 1000.0))
    assert (
        look_at_log([each.replace("LOG", str(log)).replace("FOLDER", str(tmp_path)) for each in flags])
        == found
    )
