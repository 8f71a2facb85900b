"""When a job had 98 % of its gain: the step by its log, the time by its sidecar's reports."""

import math

import msgspec
import pytest

from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.cli.run.gain import StepLog, add_gains, step_of_gain
from specon_manager.cli.run.result import summarize
from specon_manager.core.state import State
from specon_manager.model.cluster import Job, Replica
from specon_manager.model.progress import Progress

JOB = "default/mnist"


def state(step=None, at=None):
    spec = job_spec(read_job(b'{"name": "mnist", "command": "true"}'))
    replica = Replica(name=f"{JOB}/worker/0", job=JOB, progress=Progress(step=step, step_at=at))
    job = Job(spec=spec, order=0, submitted_at=1002.0)
    return msgspec.structs.replace(State(), jobs={JOB: job}, replicas={replica.name: replica})


@pytest.mark.parametrize("sign", [1, -1])
def test_the_step_is_where_a_fiftieth_of_the_run_has_it(sign):
    """A loss that falls, or an accuracy that rises, by e to the power of -step/100 has 98 % near 400."""
    values = {step: sign * math.exp(-step / 100) for step in range(1, 2001)}
    assert step_of_gain(values, more_is_better=sign < 0) == pytest.approx(410, abs=40)


@pytest.mark.parametrize("values", [{}, {1: 1.0}, {1: 1.0, 2: 2.0, 3: 3.0}])
def test_what_gained_nothing_has_no_such_step(values):
    """An empty log, one sample, or a loss that only rises."""
    assert step_of_gain(values, more_is_better=False) is None


def test_the_time_is_between_two_reports():
    """A step between two that were reported was reached between them; one beyond the last is not known."""
    steps = StepLog()
    for step, at in ((None, None), (10, 1010.0), (10, 1011.0), (30, 1020.0), (20, 1030.0), (40, 1040.0)):
        steps.observe(state(step, at))
    assert [steps.reached(JOB, step) for step in (5, 10, 20, 30, 35, 41)] == [
        1010,
        1010,
        1015,
        1020,
        1030,
        None,
    ]
    assert steps.reached("default/other", 1) is None


def test_a_result_tells_the_time_since_the_submission(tmp_path):
    """The log in the job's directory says which step it was; without a log nothing is said."""
    steps = StepLog()
    for step in range(0, 2001, 10):
        steps.observe(state(step, 1000.0 + step / 10))
    result = summarize(state(), began=1000.0)
    assert add_gains(result, state(), steps, tmp_path, 1000.0).jobs[0].gain_seconds is None
    folder = tmp_path / "replicas" / "default.mnist.worker.0"
    folder.mkdir(parents=True)
    lines = [f"step={step}/2000 loss={1 + math.exp(-step / 100):.6f}\n" for step in range(1, 2001)]
    (folder / "train.log").write_text("started\n" + "".join(lines))
    told = add_gains(result, state(), steps, tmp_path, 1000.0)
    assert told.jobs[0].gain_seconds == pytest.approx(41 - 2, abs=4)
