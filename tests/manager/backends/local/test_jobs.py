"""Job files: what is read, and that every mistake is named."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.backends.local.jobs import (
    JobFileError,
    classifier_arguments,
    fill_in,
    job_spec,
    read_job,
    read_job_file,
)
from specon_sidecar.settings import read_settings

SAMPLE = Path(__file__).parents[4] / "samples" / "jobs" / "demo.yaml"


def mistakes_of(text: str) -> tuple[str, ...]:
    with pytest.raises(JobFileError) as caught:
        read_job_file(text)
    return caught.value.mistakes


def test_the_sample_file_is_read():
    """The demo's own file has at least ten jobs, submitted one after another, of all five models."""
    file = read_job_file(SAMPLE.read_text())
    assert len(file.jobs) >= 10
    times = [job.submit_at for job in file.jobs]
    assert times == sorted(set(times))
    scripts = {Path(job.arguments[1]).stem for job in file.jobs}
    assert scripts == {"vae", "gru", "bidirectional_rnn", "rnn", "dynamic_rnn"}


def test_defaults_are_those_of_every_job_and_a_job_may_differ():
    """A job's own value goes before the default's; environments are joined."""
    file = read_job_file("""
defaults: {interval: 5, environment: {A: "1", B: "1"}}
jobs:
  - {name: a, command: "true"}
  - {name: b, command: ["true"], interval: 7, environment: {B: "2"}}
""")
    assert [job.interval for job in file.jobs] == [5, 7]
    assert [dict(job.environment) for job in file.jobs] == [{"A": "1", "B": "1"}, {"A": "1", "B": "2"}]


def test_a_word_that_is_not_known_is_answered_with_those_that_are():
    """This holds for an optional field, too."""
    told = mistakes_of("jobs: [{name: a, command: x, resizing: none, on_hang: retry, savers: 3}]")
    assert sorted(told) == [
        "jobs[0] (a).on_hang: must be one of report, restart, not 'retry'",
        "jobs[0] (a).resizing: must be one of restart, live, not 'none'",
        "jobs[0] (a).savers: must be one of lead, all, not 3",
    ]


def test_every_mistake_is_named_at_once():
    """A wrong file is refused with each field that is wrong, its job and its value."""
    found = "\n".join(
        mistakes_of("""
polcy: specon
budgets: {moves_at_once: -1}
jobs:
  - {name: a}
  - {name: b, comand: "true", alpha: 2, checkpoint: "signal:KILL", colour: red}
  - {name: B!, command: "true", log: "{where}/x", format: toml}
  - {name: c, command: "echo 'open"}
  - {name: c2, command: "true", interval: soon}
  - 7
""")
    )
    for expected in (
        "polcy: is not known; did you mean policy?",
        "budgets: ",
        "jobs[0] (a).command: is missing",
        "jobs[1] (b).colour: is not known\n",
        "jobs[1] (b).comand: is not known; did you mean command?",
        "jobs[1] (b).alpha: ",
        "jobs[1] (b).checkpoint: 'signal:KILL'",
        "jobs[2] (B!).name: must be lower-case letters, digits and dashes, at most 63, not 'B!'",
        "jobs[2] (B!).log: the placeholder {where}",
        "jobs[2] (B!).format: ",
        "jobs[3] (c).command: No closing quotation",
        "jobs[4] (c2).interval: Expected `float`, not 'soon'",
        "jobs[5]: must be a mapping",
    ):
        assert expected in found, expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "a mapping"),
        ("[1, 2]", "a mapping"),
        ("jobs: []", "jobs: must be a list of at least one job"),
        ("jobs: {a: 1}", "jobs: must be a list"),
        ("jobs: [{name: a, command: 'true'}, {name: a, command: 'true'}]", "'a' is used twice"),
        ("policy: best\njobs: [{name: a, command: 'true'}]", "policy: 'best' is not one of"),
        ("policy: srpt\njobs: [{name: a, command: 'true'}]", "policy: srpt must be told how long"),
        ("parameters: {min: 1}\njobs: [{name: a, command: 'true'}]", "parameters of policy progress"),
        ("jobs: [{name: a, command: 'true'}", "not YAML"),
        ("jobs:\n  - name: a\n   command: x\n", "not YAML: line 3, column 4: expected <block end>"),
        ("jobs: [{name: a, command: 'true', pattern: 'x(y'}]", "jobs[0] (a).format"),
        (
            "jobs: [{name: a, command: 'true', remaining_gain: 0.001}]",
            "jobs[0] (a).confidence, remaining_gain: 0.7 is never reached",
        ),
        ("defaults: 3\njobs: [{name: a, command: 'true'}]", "defaults: must be a mapping"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text, named):
    """The message names the field and what it must be."""
    assert any(named in mistake for mistake in mistakes_of(text))


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    """Whatever stands in a file, it is read or refused with mistakes."""
    with contextlib.suppress(JobFileError):
        assert read_job_file(text).jobs


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_no_submission_breaks_the_reader(value):
    """Whatever is submitted, it is read or refused with mistakes."""
    for body in (json.dumps(value), json.dumps({"name": value, "command": value, "environment": value})):
        with pytest.raises(JobFileError):
            read_job(body.encode())


def test_a_submission_is_checked_like_a_file():
    """`specon submit` meets the same rules, named alike."""
    with pytest.raises(JobFileError, match=r"job \(x\)\.grace_seconds"):
        read_job(b'{"name": "x", "command": ["true"], "grace_seconds": -1}')
    assert read_job(b'{"name": "x", "command": "sleep 1"}').arguments == ("sleep", "1")


@pytest.mark.parametrize(
    ("mode", "known_as"),
    [("periodic", "asked"), ("signal:USR1", "asked"), ("sigterm", "on-termination"), ("none", "none")],
)
def test_the_manager_learns_when_a_checkpoint_is_written(mode, known_as):
    """Only what decisions need of the mode reaches them."""
    job = read_job(json.dumps({"name": "x", "command": "true", "checkpoint": mode}).encode())
    assert job_spec(job).checkpointing == known_as


@pytest.mark.parametrize(
    ("said", "checkpoint"),
    [({}, "hook"), ({"checkpoint": "signal:USR1"}, "signal:USR1"), ({"instrument": False}, "periodic")],
)
def test_an_instrumented_job_is_asked_through_its_helper(said, checkpoint):
    """Unless it says another way; and that way needs the helper."""
    entry = {"name": "x", "command": "true", "instrument": True, **said}
    assert read_job(json.dumps(entry).encode()).checkpoint == checkpoint
    with pytest.raises(JobFileError, match="'hook' needs instrument: true"):
        read_job(b'{"name": "x", "command": "true", "checkpoint": "hook"}')


def test_the_template_is_the_job():
    """What the backend needs comes back from the template unchanged."""
    job = read_job(b'{"name": "x", "command": "true", "environment": {"A": "b"}, "alpha": 0.5}')
    spec = job_spec(job)
    assert spec.name == "default/x"
    assert spec.replicas == ("default/x/worker/0",)
    assert read_job(json.dumps(spec.template).encode()) == job


def test_placeholders_are_filled_in_and_other_braces_stay():
    """`{log}` becomes a path; JSON or a shell's braces in a command stay as they are."""
    assert fill_in("{log} {other} {}", {"log": "/x"}) == "/x {other} {}"


def test_the_classifier_gets_the_job_s_parameters():
    """What a job says of its classifier reaches its sidecar; a goal only where it has one."""
    job = read_job(b'{"name": "x", "command": "true", "remaining_gain": 0.05, "interval": 2}')
    expected = ["--classifier=horizon", "--interval=2.0", "--remaining-gain=0.05", "--confidence=0.7"]
    assert classifier_arguments(job) == expected
    body = b'{"name": "x", "command": "true", "classifier": "specon", "alpha": 0.05, "goal": "max"}'
    expected = ["--classifier=specon", "--interval=30.0", "--alpha=0.05", "--scale=first", "--goal=max"]
    assert classifier_arguments(read_job(body)) == expected


@pytest.mark.parametrize("least", [True, False])
def test_the_sidecar_takes_what_a_job_may_say(least):
    """The bounds of a job's classifier are within those of its sidecar: none fails at its start."""
    values = (
        {"remaining_gain": 1e-6, "confidence": 0.01}
        if least
        else {"remaining_gain": 0.999, "confidence": 0.999}
    )
    job = read_job(json.dumps({"name": "x", "command": "true", **values}).encode())
    classifier = read_settings(["--log", "/log", *classifier_arguments(job)], {}).classifier
    assert (classifier.remaining_gain, classifier.confidence) == tuple(values.values())
    with pytest.raises(JobFileError, match="remaining_gain"):
        read_job(b'{"name": "x", "command": "true", "remaining_gain": 1}')


@pytest.mark.parametrize(
    ("line", "reweight"), [("", True), ("reweight: true", True), ("reweight: false", False)]
)
def test_jobs_are_stopped_for_others_unless_the_file_forbids_it(line, reweight):
    """Weights mean something on this machine."""
    assert read_job_file(f"{line}\njobs: [{{name: a, command: 'true'}}]\n").settings.reweight is reweight


def test_what_is_neither_true_nor_false_forbids_nothing_by_accident():
    """It is a mistake, and named."""
    with pytest.raises(JobFileError, match="reweight: Expected `bool`"):
        read_job_file("reweight: sometimes\njobs: [{name: a, command: 'true'}]\n")
