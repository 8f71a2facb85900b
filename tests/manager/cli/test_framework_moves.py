"""`specon demo --scenario frameworks`: what is installed runs, and each job is moved once."""

import pytest

from specon_manager.backends.local.jobs import read_job_file
from specon_manager.cli.run import framework_moves, scenarios
from specon_manager.cli.run.framework_moves import MoveOnce
from specon_manager.cli.run.running import samples_directory
from specon_manager.model.events import MoveRequested
from specon_manager.usage import UsageError
from support.decisions.cluster import Cluster


@pytest.fixture
def file():
    return read_job_file(scenarios.file_of("frameworks", samples_directory()).read_text())


def test_jobs_name_a_sample_that_is_there_and_knows_nothing_of_specon(file):
    """Each framework has one, and nothing but `instrument` is said of it."""
    assert {job.name for job in file.jobs} == set(framework_moves.NEEDS)
    for job in file.jobs:
        assert job.instrument
        script = next(word for word in job.arguments if word.endswith(".py"))
        assert "import specon" not in (samples_directory() / script.partition("/")[2]).read_text()


def test_what_is_not_installed_is_left_out_and_named(file, monkeypatch):
    """Where nothing is, that is said before anything starts."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "torch" or None)
    kept, missing = framework_moves.keep_installed(file)
    assert [job.name for job in kept.jobs] == ["pytorch", "torchrun"]
    assert missing == ["keras", "lightgbm", "lightning", "transformers", "xgboost"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="frameworks"):
        framework_moves.keep_installed(file)


def test_a_job_is_moved_once_after_some_steps():
    """One that names no value is given more of them."""
    cluster, mover = Cluster(), MoveOnce()
    (replica,) = cluster.run("keras")
    cluster.report(replica, step=10)
    assert list(mover.look(cluster.state)) == []
    cluster.report(replica, step=600)
    asked = list(mover.look(cluster.state))
    assert asked == [MoveRequested(id="once-keras", replica=replica, reason="each is moved once")]
    assert list(mover.look(cluster.state)) == []
