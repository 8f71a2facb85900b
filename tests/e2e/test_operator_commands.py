"""What an operator types beside a running manager of this machine, and what it says and does."""

import json
import tarfile

import pytest

from specon_manager.__main__ import main
from specon_manager.model.transactions import TransactionState
from support.local.gang_stage import JOB, gang
from support.local.stage import MOVER, NEIGHBOUR, Stage
from support.local.terminal import Terminal

pytestmark = pytest.mark.processes

USAGE = 2
WHY = "the storage is serviced"
SECRET = "hunter2-hunter2-hunter2"


class Operator:
    """Types commands and reads what they print; in this process, for the start of one takes a while."""

    def __init__(self, stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
        self.stage = stage
        self.errors = ""
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self._capsys.readouterr()
        got = main([*arguments, "--state", str(self.stage.state)])
        output, self.errors = self._capsys.readouterr()
        assert got == code, (output, self.errors)
        return output

    def json(self, *arguments: str, code: int = 0):
        return json.loads(self(*arguments, "--output", "json", code=code))

    def node(self, job: str) -> str:
        return next(row["node"] for row in self.json("top")["replicas"] if row["job"] == f"default/{job}")


@pytest.fixture
def operator(stage: Stage, capsys: pytest.CaptureFixture[str]) -> Operator:
    """Start a manager that moves nothing of its own accord, with two jobs that train for long."""
    long = ("--flat", "--steps", "1000000")
    jobs = [stage.job(name, *long, environment={"API_KEY": SECRET}) for name in (MOVER, NEIGHBOUR)]
    stage.write_jobs(*jobs, policy="fifo", parameters={})
    stage.manager(hurry=False)
    operator = Operator(stage, capsys)
    stage.eventually((stage.state / "manager.json").exists)
    stage.eventually(lambda: _all_train(operator.json("top")["replicas"]))
    return operator


def _all_train(rows: list[dict[str, object]]) -> bool:
    return len(rows) == 2 and all(row["step"] for row in rows)


def test_a_move_by_hand(operator: Operator):
    """A dry run touches nothing, --wait ends with the move, and moves and explain tell of it."""
    source = operator.node(MOVER)
    target = next(name for name in ("node-0", "node-1") if name != source)
    would = operator.json("migrate", MOVER, "--to", target, "--dry-run")
    assert (would["source"], would["target"], would["objection"]) == (source, target, None)
    assert operator.json("moves")["moves"] == []
    assert f"it is on {source} already" in operator("migrate", MOVER, "--to", source, "--dry-run", code=1)
    operator("migrate", MOVER, "--to", source, code=1)
    assert operator.errors == f"specon: it is on {source} already\n"
    move = operator.json("migrate", MOVER, "--to", target, "--reason", WHY, "--wait")["move"]
    assert (move["state"], move["target"]) == (TransactionState.SUCCEEDED, target)
    assert operator.node(MOVER) == target
    assert operator.json("moves")["moves"][-1] == move
    told = operator("explain", MOVER)
    assert f"{source} -> {target}, Succeeded: {WHY}" in told
    assert "fifo proposed start: ordered" in told
    explained = operator.json("explain", MOVER)
    assert [row["id"] for row in explained["moves"]] == [row["id"] for row in operator.json("moves")["moves"]]
    # And a drain takes everything else there too, or back.
    drained = operator.json("drain", target, "--wait")
    assert drained["waiting"] == drained["stay"] == []
    assert {row["state"] for row in drained["moves"]} == {TransactionState.SUCCEEDED}
    assert [row["node"] for row in operator.json("top")["replicas"]] == [source, source]


def test_a_pause_and_its_end(operator: Operator):
    """Nothing is started or moved meanwhile, not by hand either; a request gets the reason."""
    assert WHY in operator.json("pause", "--reason", WHY)["reason"]
    operator("migrate", MOVER, code=1)
    assert operator.errors == f"specon: the manager is paused: {WHY}\n"
    operator("drain", "node-0", code=1)
    assert "specon resume ends that" in operator.errors
    assert "PAUSED since 2" in operator("top", "--once")
    assert f"the manager is paused: {WHY}" in operator("explain", MOVER)
    submitted = operator.stage.run_specon("submit", "--state", "state", "--name", "late", "--", "true")
    assert submitted.code == 0
    late = "default/late/worker/0"
    operator.stage.eventually(
        lambda: f"refused (paused): the manager is paused: {WHY}" in operator("explain", "late")
    )
    rows = {row["replica"]: row["phase"] for row in operator.json("top", "--ended")["replicas"]}
    assert rows[late] == "Pending"
    assert operator.json("resume")["paused"] is False
    operator.stage.eventually(
        lambda: (
            {row["replica"]: row["phase"] for row in operator.json("top", "--ended")["replicas"]}[late]
            == "Succeeded"
        )
    )


def test_a_bundle_has_no_secrets(operator: Operator):
    """State, journal, log, metrics and versions, without environments, tokens and keys; also afterwards."""
    stage = operator.stage
    told = operator.json("support-bundle", "--out", str(stage.folder / "b.tar.gz"))
    names = {part["name"] for part in told["parts"]}
    assert names >= {"state.json", "journal.jsonl", "settings.json", "metrics.txt", "versions.json"}
    with tarfile.open(stage.folder / "b.tar.gz") as tar:
        contents = {one.name: tar.extractfile(one).read().decode() for one in tar.getmembers()}
    everything = "".join(contents.values())
    for secret in (SECRET, *((stage.state / name).read_text().strip() for name in ("token", "key"))):
        assert secret not in everything
    state = json.loads(contents["specon-support/state.json"])
    assert set(state["jobs"]) == {f"default/{MOVER}", f"default/{NEIGHBOUR}"}
    lines = contents["specon-support/journal.jsonl"].splitlines()
    assert all(json.loads(line) for line in lines)
    assert "specon_replicas" in contents["specon-support/metrics.txt"]


@pytest.mark.parametrize("leave", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_top_is_live_and_is_left_by_a_key(operator: Operator, leave: str):
    """It shows each job, keys change the order, and the terminal is as it was before."""
    stage = operator.stage
    terminal = Terminal(["top", "--state", "state", "--interval", "0.3"], stage.folder)
    terminal.see("by category")
    terminal.see(NEIGHBOUR)
    terminal.press("l")
    terminal.see("by loss")
    terminal.press("r")
    terminal.see("by loss reversed")
    operator("pause", "--reason", WHY)
    terminal.see("PAUSED since 2")
    terminal.press(leave)
    assert terminal.end() == 0
    assert "\x1b[?1049l" in terminal.shown
    assert "Traceback" not in terminal.shown


def test_a_gang_is_moved_by_hand(stage: Stage, capsys: pytest.CaptureFixture[str]):
    """By the name of its job, of one of its workers, by a drain: each time all of it, from one checkpoint."""
    job = gang(stage, "--steps", "1000000", resizing="none", workers=2, requests={"cpu": 0.1})
    stage.write_jobs(job, policy="fifo", parameters={})
    stage.manager(hurry=False)
    operator = Operator(stage, capsys)
    stage.eventually((stage.state / "manager.json").exists)
    stage.eventually(lambda: _all_train(operator.json("top")["replicas"][:1] * 2))
    second = operator.json("top", "--sort", "name")["replicas"][1]["replica"]

    def nodes() -> list[str]:
        return [row["node"] for row in operator.json("top", "--sort", "name")["replicas"]]

    told = operator.json("migrate", JOB, "--to", "node-1", "--reason", WHY, "--wait")
    row = told["move"]
    assert (row["state"], row["replica"], row["killed"]) == (TransactionState.SUCCEEDED, None, 0), row
    assert row["checkpoint_step"] + 1 == row["first_step_after"]
    assert nodes() == ["node-1", "node-1"]
    said = operator("migrate", second, "--to", "node-0", "--wait")
    assert said.startswith(f"{second} trains as one with the rest of {JOB}: the whole job moves\n")
    assert nodes() == ["node-1", "node-0"]
    drained = operator.json("drain", "node-1", "--wait")
    assert [(row["replica"], row["state"]) for row in drained["moves"]] == [(None, "Succeeded")]
    assert nodes() == ["node-0", "node-0"]
    assert f"{JOB} could be moved as a whole now: all 2 replicas: node-0 -> node-1" in operator(
        "explain", JOB
    )


def test_moves_are_watched_until_ctrl_c(operator: Operator):
    """A line for each change, as JSON lines for other programs."""
    terminal = Terminal(
        ["moves", "--state", "state", "--watch", "--interval", "0.2", "-o", "json"], operator.stage.folder
    )
    operator("migrate", MOVER, "--wait")
    terminal.see('"state":"Succeeded"')
    terminal.press("\x03")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.shown


def test_errors_are_one_sentence_with_what_to_do(operator: Operator):
    """Unknown names, nodes, times and managers."""
    for arguments, words in (
        (("migrate", "nobody"), f"there is no job 'default/nobody'; there are default/{MOVER}, "),
        (("explain", "default/nobody"), "there is no job 'default/nobody'"),
        (("migrate", "default/x/worker/0"), "there is no replica 'default/x/worker/0'; there are "),
        (("drain", "nowhere"), "there is no node 'nowhere'; there are node-0, node-1"),
        (("drain", "node-0", "--timeout", "0"), "--timeout: 0 is not a number of seconds above 0"),
        (("top", "--interval", "0"), "--interval: 0 is less than 0.2 seconds"),
        (("top", "--context", "x"), "--state names a manager of this machine, --context one of a cluster"),
    ):
        operator(*arguments, code=USAGE)
        assert operator.errors.startswith(f"specon: {words}"), operator.errors
        assert operator.errors.count("\n") == 1
