"""A journal that version 0.1 wrote: whatever its last line, a manager of today takes over what was there.

`written_before` has three real ones, in which most reports are left out: moves of single replicas (`specon`),
gangs that grow and shrink (`kod2`), and gangs that are preempted (`fitgpp`).
"""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from specon_manager.__main__ import main
from specon_manager.core.state import State
from specon_manager.core.state_check import check_state
from specon_manager.model import events as ev
from specon_manager.model.cluster import Phase
from specon_manager.runtime.journal import NAME, Journal, JournalError, Recovered, first_difference, recover
from specon_manager.runtime.journal_line import SCHEMA
from support.decisions.cluster import Cluster, Live

WRITTEN = Path(__file__).parent / "written_before"
RUNS = ["specon", "kod2", "fitgpp"]
EVERY = 20
"""At each so-manieth line the work of the next manager is looked at, too: that takes time."""


def lines_of(run: str) -> list[bytes]:
    return gzip.decompress((WRITTEN / f"journal-0.1-{run}.jsonl.gz").read_bytes()).splitlines(keepends=True)


def sealed(lines: list[bytes]) -> list[bytes]:
    """Return the lines with checksums, as the last builds of version 0.1 wrote them."""
    found, before = [], 0
    for line in lines:
        before = zlib.crc32(line[:-2], before)
        found.append(line[:-2] + b',"crc":"%08x"}\n' % before)
    return found


def recovered(path: Path, lines: list[bytes]) -> Recovered:
    path.write_bytes(b"".join(lines))
    found = recover(path)
    assert found is not None
    return found


class Then:
    """What a reader who knows nothing of states says of a journal: which processes there are."""

    def __init__(self) -> None:
        self.now = 0.0
        self.jobs: set[str] = set()
        self.runs: dict[str, tuple[str, str]] = {}
        """Incarnation and node, by replica."""
        self.ordered: dict[str, int] = {}
        """The start that was ordered and neither seen nor refused, by replica."""
        self.complete: set[str] = set()
        """Replicas that ended by themselves, with success."""
        self.requests: set[str] = set()
        self.told: dict[str, str] = {}
        """Incarnation by replica, of what was told to end."""

    def take(self, line: bytes) -> None:
        record = json.loads(line)
        if record["type"] == "begin":
            return
        event: dict[str, Any] = record["event"]
        self.now = record["now"]
        name, kind = event.get("replica", ""), event["type"]
        if kind == "JobSubmitted":
            self.jobs.add(event["spec"]["name"])
        elif kind == "ReplicaStarted":
            self.runs[name] = event["incarnation"], event["node"]
            self.ordered.pop(name, None)
        elif kind == "ReplicaGone" and self.runs.get(name, ("",))[0] == event["incarnation"]:
            del self.runs[name]
            if event["exit_code"] == 0 and not event["evicted"]:
                self.complete.add(name)
        for action in record["actions"]:
            if action["type"] == "StartReplica":
                self.ordered[action["replica"]] = action["start"]
            elif action["type"] == "EvictReplica":
                self.told[action["replica"]] = action["incarnation"]
            elif action["type"] == "RequestCheckpoint":
                self.requests.add(action["id"])

    def check(self, state: State) -> None:
        """No job is lost; what runs is known to run, what may run is looked for, and nothing else is."""
        check_state(state)
        assert state.jobs.keys() == self.jobs
        known = {
            each.name: (each.incarnation, each.node)
            for each in state.replicas.values()
            if each.phase is Phase.RUNNING
        }
        assert known == self.runs
        starting = {
            each.name: each.starts for each in state.replicas.values() if each.phase is Phase.STARTING
        }
        assert starting == self.ordered
        over = {each.name for each in state.replicas.values() if each.phase is Phase.SUCCEEDED}
        assert over >= self.complete
        assert all(state.jobs[state.replicas[name].job].ended_at is not None for name in over - self.complete)
        assert not [each.name for each in state.replicas.values() if each.phase is Phase.FAILED]
        for name, (incarnation, _) in self.runs.items():
            resting = state.jobs[state.replicas[name].job].cooldown_until > self.now
            assert resting or self.told.get(name) != incarnation
        numbers = [int(request.rpartition("-")[2]) for request in self.requests]
        assert state.transaction_count >= max(numbers, default=0)


@pytest.mark.parametrize("with_checksums", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_wherever_it_ends_what_there_was_is_taken_over(tmp_path, run, with_checksums):
    """Each journal is cut after each of its lines, with and without checksums."""
    lines, then = lines_of(run), Then()
    written = sealed(lines) if with_checksums else lines
    for count, line in enumerate(lines, start=1):
        then.take(line)
        if with_checksums and count % EVERY:
            continue
        found = recovered(tmp_path / NAME, written[:count])
        assert (found.schema, found.steps) == (1, count - 1)
        assert found.began_at == json.loads(lines[0])["at"]
        assert found.last_at == (found.began_at if count == 1 else json.loads(line)["now"])
        then.check(found.state)


class Successor(Cluster):
    """The cluster that a manager of version 0.1 left, with one of today."""

    def __init__(self, found: Recovered, then: Then) -> None:
        super().__init__(nodes=0)
        self.state = self.initial = found.state
        self.now = found.last_at
        for name, (incarnation, node) in then.runs.items():
            self.live[name] = Live(incarnation, node, f"session-{incarnation}")
        self.restart_manager()

    def bring_to_the_end(self) -> None:
        """Let everything train until all jobs have ended: each replica so many seconds, then to success."""
        lived: dict[str, int] = {}
        for _ in range(2000):
            if all(job.ended_at is not None for job in self.state.jobs.values()):
                return
            self.carry_out()
            for name, live in sorted(self.live.items()):
                if name not in self.live or self.state.replicas[name].incarnation != live.incarnation:
                    continue
                lived[live.incarnation + name] = age = lived.get(live.incarnation + name, 0) + 1
                if age > 20 and self.state.replicas[name].role != "ps":
                    self.die(name, 0)
                else:
                    step = self.state.replicas[name].progress.step or 0
                    self.report(name, step=step + 1)
            self.tick()
        raise AssertionError([name for name, job in self.state.jobs.items() if job.ended_at is None])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("run", RUNS)
def test_wherever_it_ends_the_next_manager_brings_every_job_to_its_end(tmp_path, run):
    """Nothing lives twice, nothing waits for ever, and every rule of today holds from the first event on."""
    lines, then = lines_of(run), Then()
    for count, line in enumerate(lines, start=1):
        then.take(line)
        if count % EVERY and count < len(lines):
            continue
        successor = Successor(recovered(tmp_path / NAME, lines[:count]), then)
        successor.bring_to_the_end()
        ended = [each for each in successor.state.replicas.values() if each.phase is not Phase.ABSENT]
        assert {each.phase for each in ended} <= {Phase.SUCCEEDED}
        assert successor.live == {}


@pytest.mark.parametrize("run", RUNS)
def test_the_new_journal_is_one_of_today(tmp_path, run):
    """It begins with today's schema and the time of then; the former one is kept beside it, as it was."""
    path = tmp_path / NAME
    lines = lines_of(run)[:-5]
    found = recovered(path, lines)
    journal = Journal(path, began_at=found.began_at, version="test")
    journal.begin_anew(found.state, found.last_at)
    first = json.loads(path.read_bytes())
    assert (first["type"], first["schema"], first["last_at"]) == ("begin", SCHEMA, found.last_at)
    assert path.with_name(f"{NAME}.1").read_bytes() == b"".join(lines)
    again = recover(path)
    assert again is not None
    assert (again.state, again.began_at, again.last_at) == (found.state, found.began_at, found.last_at)
    journal.append(found.last_at + 1, ev.Tick(), [])
    journal.close()
    after = recover(path)
    assert after is not None
    assert (after.schema, after.steps, after.last_at) == (SCHEMA, 1, found.last_at + 1)


STATES = json.loads(gzip.decompress((WRITTEN / "states-0.1.json.gz").read_bytes()))
"""What a manager of version 0.1 held in memory, in each state of a move or a change, by run and state."""


@pytest.mark.parametrize("of", STATES)
def test_a_file_that_was_begun_anew_says_the_same_as_one_that_was_not(tmp_path, of):
    """A large journal went on from a state: with what came after it the same is known."""
    at, state = STATES[of]["at"], STATES[of]["state"]
    begin, *steps = lines_of(of.partition(" ")[0])
    count = sum(json.loads(line)["now"] <= at for line in steps)
    anew = json.dumps({**json.loads(begin), "last_at": at, "state": state}).encode() + b"\n"
    then = Then()
    for line in steps[:count]:
        then.take(line)
    found = recovered(tmp_path / NAME, [anew])
    assert found.last_at == at
    then.check(found.state)
    Successor(found, then).bring_to_the_end()
    for more, line in enumerate(steps[count:], start=1):
        then.take(line)
        if more % EVERY == 0 or more == len(steps) - count:
            then.check(recovered(tmp_path / NAME, [anew, *steps[count : count + more]]).state)


@pytest.mark.parametrize("run", RUNS)
def test_it_is_not_run_through_the_decisions_again(tmp_path, run, capsys):
    """`specon replay` names its version and refuses it, as it does any wrong argument."""
    path = tmp_path / NAME
    path.write_bytes(b"".join(lines_of(run)))
    assert main(["replay", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}, line 1: it is the journal of a manager of version 0.1: its steps cannot be run" in said
    assert "damaged" not in said
    with pytest.raises(JournalError, match=r"version 0\.1"):
        first_difference(path)


@pytest.mark.parametrize(
    "bad",
    [
        b"{}\n",
        b"[]\n",
        b"\xff\n",
        b'{"type":"step","now":"soon","event":{"type":"Tick"}}\n',
        b'{"type":"step","now":1.0,"event":{"type":"ReplicaStarted"}}\n',
        b'{"type":"step","now":1.0,"event":{"type":"JobSubmitted","spec":{"name":"x"}}}\n',
        b'{"type":"step","now":1.0,"event":7}\n',
        b'{"type":"step","now":1.0,"event":{"type":"Tick"},"actions":[3]}\n',
        b'{"type":"step","now":1.0,"event":{"type":"Tick"},"actions":[],"crc":"00000000"}\n',
    ],
)
def test_what_is_damaged_in_it_is_named_and_cut_off(tmp_path, bad, capsys):
    """With file and line; `specon replay --cut` keeps what is before it, and a manager goes on there."""
    path = tmp_path / NAME
    lines = lines_of("specon")
    path.write_bytes(b"".join([*lines[:40], bad, *lines[41:]]))
    with pytest.raises(JournalError, match=rf"{path}, line 41: (.|\n)*specon replay --cut"):
        recover(path)
    assert main(["replay", "--cut", str(path)]) == 0
    assert "40 good lines are kept" in capsys.readouterr().out
    assert recovered(path, [path.read_bytes()]).steps == 39


def test_a_line_that_a_crash_cut_off_is_passed_over(tmp_path):
    """As in a journal of today."""
    lines = lines_of("fitgpp")
    found = recovered(tmp_path / NAME, [*lines[:30], lines[30][:-4]])
    assert found.steps == 29
    path = tmp_path / NAME
    path.write_bytes(lines[0][:-4])
    assert recover(path) is None


def test_a_changed_checksum_is_noticed(tmp_path):
    """Where version 0.1 wrote checksums, they are looked at."""
    lines = sealed(lines_of("fitgpp"))
    lines[50] = lines[50].replace(b'"now":1', b'"now":2')
    with pytest.raises(JournalError, match="line 51: its checksum is wrong"):
        recovered(tmp_path / NAME, lines)
