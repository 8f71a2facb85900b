"""The journal: the manager's only memory, across crashes, rotations and tampering."""

import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specon_manager.core.state import State
from specon_manager.model import events as ev
from specon_manager.runtime import journal as module
from specon_manager.runtime.journal import Journal, JournalError, first_difference, recover
from specon_sidecar.classify import Category
from support.cluster import SETTINGS, Cluster

AT = 500.0


def eventful() -> Cluster:
    """Return a cluster with starts, reports, crashes and a whole move in its history."""
    cluster = Cluster()
    a, b, c, d = cluster.run("a", "b", "c", "d")
    for replica in (a, b, c, d):
        cluster.report(replica, step=100)
    cluster.die(b, 0)
    cluster.die(d, 1)
    cluster.report(a, Category.CONVERGED, step=200)
    cluster.tick()
    cluster.carry_out()
    cluster.report(a, Category.CONVERGED, step=201)
    cluster.settle()
    assert cluster.state.history
    return cluster


def write(path: Path, cluster: Cluster, *, after: int = 0) -> Journal:
    journal = Journal(path, began_at=AT, version="1")
    if not after:
        journal.begin(cluster.initial)
    for now, event, actions in cluster.history[after:]:
        journal.append(now, event, actions)
    journal.sync()
    return journal


@pytest.fixture
def path(tmp_path):
    return tmp_path / module.NAME


def test_what_is_recovered_is_the_state_that_lived(path):
    """Recovery makes the same state of the events again, and knows when the last one was."""
    cluster = eventful()
    write(path, cluster).close()
    recovered = recover(path)
    assert recovered is not None
    assert recovered.state == cluster.state
    assert recovered.began_at == AT
    assert recovered.last_at == cluster.now
    assert recovered.steps == len(cluster.history)


def test_nothing_is_recovered_where_there_is_no_journal(path):
    """No file, an empty file, and a file whose first line was cut off hold nothing."""
    assert recover(path) is None
    path.touch()
    assert recover(path) is None
    path.write_bytes(b'{"type":"begin","schema":1')
    assert recover(path) is None


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_line_that_a_crash_cut_off_is_passed_over_and_overwritten(path, cut):
    """A torn last line ends the journal; the next manager writes on after the last whole one."""
    cluster = eventful()
    write(path, cluster).close()
    path.write_bytes(path.read_bytes()[:-cut])
    recovered = recover(path)
    assert recovered is not None
    assert recovered.steps == len(cluster.history) - 1
    write(path, cluster, after=recovered.steps).close()
    again = recover(path)
    assert again is not None
    assert again.state == cluster.state
    assert first_difference(path) == (len(cluster.history), None)


@pytest.mark.parametrize("garbage", [b"{}\n", b"\xff\xfe\n", b"null\n", b'{"type":"step","now":1}\n', b"\n"])
def test_a_line_in_the_middle_that_cannot_be_read_is_named(path, garbage):
    """Any other illegible line is an error with the file and the line number, not a guess."""
    write(path, eventful()).close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = garbage
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalError, match=rf"{path}, line 7: "):
        recover(path)


def test_a_second_begin_and_a_missing_one_are_named(path):
    """A journal has one begin, in its first line."""
    write(path, eventful()).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[0]]))
    with pytest.raises(JournalError, match=f"line {len(lines) + 1}: a journal has one begin"):
        recover(path)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(JournalError, match="line 1: a journal has one begin"):
        recover(path)


def test_a_journal_of_another_schema_is_refused(path):
    """What a newer manager wrote is not misread."""
    write(path, eventful()).close()
    path.write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":2', 1))
    with pytest.raises(JournalError, match="line 1: schema 2 is not 1"):
        recover(path)


def test_a_journal_without_the_later_fields_is_still_read(path):
    """A journal lives longer than the manager that began it: fields that came later may be missing."""
    write(path, eventful()).close()
    lines = path.read_bytes().splitlines(keepends=True)
    begin = msgspec.json.decode(lines[0])
    del begin["last_at"]
    path.write_bytes(msgspec.json.encode(begin) + b"\n")
    recovered = recover(path)
    assert recovered is not None
    assert recovered.last_at == AT


def test_only_its_owner_may_read_a_journal(path):
    """Job templates hold environments, and those hold secrets."""
    write(path, eventful()).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def rotated(path: Path, cluster: Cluster, *, every: int) -> Journal:
    """Write the cluster's life into journals of at most so many bytes."""
    journal = Journal(path, began_at=AT, version="1")
    journal.begin(cluster.initial)
    replay = Cluster(nodes=0)
    replay.state = cluster.initial
    for now, event, actions in cluster.history:
        replay.now = now
        replay.post(event)
        journal.append(now, event, actions)
        if every:
            journal.rotate_if_large(replay.state)
    journal.sync()
    return journal


@pytest.mark.parametrize("every", [1, 300, 3000])
def test_a_rotation_loses_nothing(path, monkeypatch, every):
    """However often the journal began anew, the same state and the same times are recovered."""
    monkeypatch.setattr(module, "_ROTATE_BYTES", every)
    cluster = eventful()
    rotated(path, cluster, every=every).close()
    recovered = recover(path)
    assert recovered is not None
    assert recovered.steps < len(cluster.history)
    assert recovered.state == cluster.state
    assert recovered.began_at == AT
    assert recovered.last_at == cluster.now


def test_the_last_few_journals_are_kept_and_each_replays(path, monkeypatch):
    """Rotated journals are whole journals; only so many are kept, and no scraps."""
    monkeypatch.setattr(module, "_ROTATE_BYTES", 300)
    rotated(path, eventful(), every=300).close()
    kept = sorted(file.name for file in path.parent.iterdir())
    assert kept == [module.NAME, *(f"{module.NAME}.{age}" for age in (1, 2, 3))]
    for name in kept:
        assert first_difference(path.with_name(name))[1] is None
        assert stat.S_IMODE(path.with_name(name).stat().st_mode) == 0o600


def test_a_state_larger_than_a_journal_does_not_rotate_at_every_step(path, monkeypatch):
    """What counts is what was added since the begin; a large cluster must not write itself out each time."""
    monkeypatch.setattr(module, "_ROTATE_BYTES", 1000)
    journal = write(path, eventful())
    assert journal.rotate_if_large(State(settings=SETTINGS, jobs={}, nodes=eventful().state.nodes))
    assert not journal.rotate_if_large(State())
    large = State(decisions=(), history=eventful().state.history * 50)
    journal.append(1.0, ev.Tick(), [])
    while not journal.rotate_if_large(large):
        journal.append(1.0, ev.Tick(), [])
    assert journal.size > 1000
    assert not journal.rotate_if_large(large)
    journal.close()


def test_a_tampered_action_is_the_first_difference(path):
    """Replay names the line at which `step` would do something else than was done."""
    cluster = eventful()
    write(path, cluster).close()
    agreed, difference = first_difference(path)
    assert (agreed, difference) == (len(cluster.history), None)
    number = next(i for i, (_, _, actions) in enumerate(cluster.history) if actions)
    lines = path.read_bytes().splitlines(keepends=True)
    assert b'"node":"node-0"' in lines[number + 1]
    lines[number + 1] = lines[number + 1].replace(b'"node":"node-0"', b'"node":"node-9"', 1)
    path.write_bytes(b"".join(lines))
    agreed, difference = first_difference(path)
    assert agreed == number
    assert difference is not None
    assert difference.line == number + 2
    assert difference.event == cluster.history[number][1]
    assert difference.recorded[0] != difference.replayed[0]
    assert difference.replayed == tuple(cluster.history[number][2])


_EVENTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 50)), max_size=30)


@given(told=_EVENTS, every=st.sampled_from([0, 1, 700]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_life_is_recovered(tmp_path_factory, told, every):
    """Recovery equals the live state after any sequence of events, with rotations or without."""
    cluster = Cluster()
    for kind, which, step in told:
        live = sorted(cluster.live)
        if kind == 0:
            cluster.submit("abcd"[which])
        elif kind == 1:
            cluster.tick(step / 4)
        elif kind == 2:
            cluster.carry_out()
        elif kind == 3:
            cluster.restart_manager()
        elif kind == 4 and live:
            cluster.report(live[which % len(live)], list(Category)[step % 7], step=step)
        elif kind == 5 and live:
            cluster.die(live[which % len(live)], [0, 1, None, 137][step % 4])
        elif kind == 6 and cluster.state.transactions:
            moving = min(name for each in cluster.state.transactions.values() for name in each.witnesses)
            cluster.acknowledge(moving, done=False, reason="no")
    path = tmp_path_factory.mktemp("journal") / module.NAME
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROTATE_BYTES", every or module._ROTATE_BYTES)
        for name in ("fdatasync", "fsync"):  # thousands of disk accesses that this test is not about
            patch.setattr(module.os, name, lambda descriptor: None)
        rotated(path, cluster, every=every).close()
    recovered = recover(path)
    assert recovered is not None
    assert recovered.state == cluster.state
    assert first_difference(path)[1] is None
