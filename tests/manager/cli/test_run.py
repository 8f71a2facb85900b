import pytest

from specon_manager.__main__ import main
from specon_manager.backends.local.jobs import JobFile
from specon_manager.cli.run.running import with_policy
from specon_manager.usage import UsageError


@pytest.mark.parametrize(
    ("policy", "text"),
    [("specom", "--policy: 'specom' is not one of"), ("srpt", "--policy: srpt must be told how long")],
)
def test_a_policy_that_cannot_run_here_is_refused_before_anything_starts(policy, text):
    """No name that is not there, and none that must be told the future."""
    with pytest.raises(UsageError, match=text):
        with_policy(JobFile(jobs=()), policy)


@pytest.mark.parametrize(("nodes", "words"), [("0", "must be from 1 to"), ("x", "must be 'auto'")])
def test_a_wrong_number_of_nodes_is_named_once(tmp_path, capsys, nodes, words):
    """The flag, then what it takes."""
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, command: 'true'}]\n")
    assert main(["local", str(tmp_path / "jobs.yaml"), "--nodes", nodes]) == 2
    assert capsys.readouterr().err.startswith(f"specon: --nodes: {words}")
