"""The commands beside a running manager: submit, explain and replay; and job files that are wrong."""

import pytest

from specon_manager.model.transactions import TransactionState
from support.local.stage import MOVER, NEIGHBOUR, Stage, check_succeeded, only_move

pytestmark = pytest.mark.processes

USAGE = 2


def test_a_submitted_job_is_run(stage: Stage):
    """`specon submit -- COMMAND` adds a job to a running `specon local`, which waits for it too."""
    stage.write_jobs(stage.job(MOVER, "--flat"))
    running = stage.specon("local", "jobs.yaml", "--nodes", "1", "--plain")
    stage.eventually(lambda: f"{MOVER} started" in running.output)
    submitted = stage.run_specon("submit", "--", *stage.trainer("--flat"))
    assert (submitted.code, submitted.output) == (0, "submitted default/trainer-1\n")
    again = stage.run_specon("submit", "--name", "trainer-1", "--", "true")
    assert again.code == USAGE
    assert "there is a job 'default/trainer-1' already" in again.errors
    stage.hurry.touch()
    assert running.wait() == 0, running.errors
    assert "trainer-1 finished" in running.output
    stage.state = stage.folder / "jobs.specon"
    stage.check_trained(MOVER, "trainer-1")
    # And once it has ended, nobody answers.
    late = stage.run_specon("submit", "--", "true")
    assert late.code == USAGE
    assert "no manager answers" in late.errors


def test_a_wrong_submission_is_refused_with_every_mistake(stage: Stage):
    """What `submit` is given is checked by the manager, which names every mistake."""
    stage.write_jobs(stage.job(MOVER, "--flat"))
    running = stage.specon("local", "jobs.yaml", "--nodes", "1", "--plain")
    stage.eventually(lambda: f"{MOVER} started" in running.output)
    wrong = stage.run_specon("submit", "--checkpoint", "wish", "--alpha", "7", "--", "train", "{nowhere}")
    assert wrong.code == USAGE
    for word in ("checkpoint", "'wish'", "alpha", "{nowhere}"):
        assert word in wrong.errors
    assert running.code is None


def test_a_wrong_job_file_is_refused_with_every_mistake(stage: Stage):
    """`specon local` starts nothing from a wrong file: it names every mistake and ends with 2."""
    stage.jobs.write_text(
        """
policy: bin-packing
budgets: {moves_at_once: -1}
colour: blue
jobs:
  - {name: Mover, command: "true"}
  - {name: twin, command: "true", alpha: 3}
  - {name: twin, command: "echo {nowhere}", checkpoint: wish, speed: 1}
  - {command: []}
"""
    )
    refused = stage.run_specon("local", "jobs.yaml")
    assert refused.code == USAGE
    assert refused.output == ""
    for words in (
        "'bin-packing' is not one of",
        "budgets",
        "colour: is not known",
        "jobs[0] (Mover).name",
        "jobs[1] (twin).alpha",
        "{nowhere}",
        "jobs[2] (twin).checkpoint",
        "jobs[2] (twin).speed: is not known",
        "jobs[3].name: is missing",
        "jobs[3].command",
    ):
        assert words in refused.errors, words
    assert "Traceback" not in refused.errors
    assert not (stage.folder / "jobs.specon").exists()


def test_a_run_can_be_explained_and_replayed(stage: Stage):
    """`explain` says why a job was moved, and `replay` finds no difference in the journal of the run."""
    stage.write_move()
    manager = stage.manager(hurry=False)
    stage.eventually(lambda: manager.told_of(state=TransactionState.SUCCEEDED))
    explained = stage.run_specon("explain", "--state", "state", MOVER)
    assert explained.code == 0
    for words in (
        "node-0 -> node-1, Succeeded",
        "converged",
        "score",
        "specon proposed move to node-1: ordered",
    ):
        assert words in explained.output, words
    unknown = stage.run_specon("explain", "--state", "state", "nobody")
    assert unknown.code == USAGE
    assert f"default/{MOVER}" in unknown.errors
    stage.hurry.touch()
    ended = manager.end
    check_succeeded(ended)
    assert only_move(ended).state is TransactionState.SUCCEEDED
    stage.check_trained(MOVER, NEIGHBOUR)
    replayed = stage.run_specon("replay", "state")
    assert replayed.code == 0, replayed.output
    assert "no difference" in replayed.output
