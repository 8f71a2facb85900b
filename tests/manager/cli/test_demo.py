"""`specon demo --scenario`: what it does not go together with, and its job files."""

import pytest

from specon_manager.backends.local.jobs import job_spec, read_job_file
from specon_manager.cli.command_parser import make_parser
from specon_manager.cli.run import demo, scenarios
from specon_manager.cli.run.running import samples_directory
from specon_manager.model.resources import total
from specon_manager.model.settings import Settings
from specon_manager.usage import UsageError


@pytest.mark.parametrize(
    "flags", [["--compare"], ["--nodes", "3"], ["--jobs", "x.yaml"], ["--policy", "fifo"]]
)
def test_a_scenario_has_its_own_jobs_and_nodes(flags):
    """A flag that would change them is refused by name."""
    arguments = make_parser().parse_args(["demo", "--scenario", "kod2", *flags])
    with pytest.raises(UsageError, match=flags[0]):
        demo.main(arguments)


def test_the_demo_runs_the_default_policy_with_weights():
    """Its job file names none, and forbids nobody to be stopped for others."""
    settings = read_job_file(scenarios.file_of("demo", samples_directory()).read_text()).settings
    assert settings.policy == Settings().policy
    assert settings.reweight


@pytest.mark.parametrize("policy", ["round-robin", "srpt", "nonsense"])
def test_a_policy_that_cannot_be_compared_is_refused(policy, tmp_path):
    """The baseline with itself, one for simulations only, and one that there is not."""
    (tmp_path / "jobs.yaml").write_text("jobs: [{name: a, command: 'true'}]\n")
    flags = ["--jobs", str(tmp_path / "jobs.yaml"), "--policy", policy, "--compare"]
    with pytest.raises(UsageError, match=policy):
        demo.main(make_parser().parse_args(["demo", *flags]))


def test_a_scenario_without_pytorch_says_what_is_missing(monkeypatch):
    """Before anything is started."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="torch, sklearn"):
        demo.main(make_parser().parse_args(["demo", "--scenario", "fitgpp"]))


@pytest.mark.parametrize("scenario", ["fitgpp", "kod2"])
def test_the_jobs_of_a_scenario_want_more_than_there_is(scenario):
    """Its policy has something to decide; every job by itself has room."""
    file = read_job_file(scenarios.file_of(scenario, samples_directory()).read_text())
    assert file.settings.policy == scenario
    specs = [job_spec(job) for job in file.jobs]
    asked = [
        total(
            [*(spec.requests_of(name) for name in (*spec.ps, *spec.worker_names[: spec.wanted_workers]))]
        ).cpu
        for spec in specs
    ]
    room = sum(node.capacity for node in scenarios.nodes(scenario))
    most = sum(total([spec.requests_of(name) for name in spec.replicas]).cpu for spec in specs)
    assert max(asked) <= room < most
    assert [job.submit_at for job in file.jobs] == sorted(job.submit_at for job in file.jobs)


def test_the_scenarios_have_what_they_are_about():
    """Jobs of both ways to change a number, a heavier one; trials and victims."""
    kod2, fitgpp = (
        [
            job_spec(job)
            for job in read_job_file(scenarios.file_of(name, samples_directory()).read_text()).jobs
        ]
        for name in ("kod2", "fitgpp")
    )
    assert {spec.resizing for spec in kod2} == {"restart", "live", "none"}
    assert kod2[-1].fewest_workers > max(spec.fewest_workers for spec in kod2[:-1])
    assert {spec.job_class for spec in fitgpp} == {"trial", "best-effort"}
    assert any(len(spec.replicas) > 1 for spec in fitgpp)


def test_the_gangs_of_a_scenario_have_room_together_and_not_on_one_node():
    """What is free when the third one comes is enough for it, and on neither node for both of its workers."""
    file = read_job_file(scenarios.file_of("gang", samples_directory()).read_text())
    specs = [job_spec(job) for job in file.jobs]
    amounts = [sum(spec.requests_of(name).cpu for name in spec.replicas) for spec in specs]
    assert sum(amounts) == sum(node.capacity for node in scenarios.nodes("gang"))
    assert file.settings.defragment == "on"
    assert all(spec.coupled and spec.checkpointing == "asked" for spec in specs)


def test_a_gang_of_a_scenario_is_spread_at_first_and_has_room_on_one_node_later():
    """Beside what is there when it comes it has room for one worker on each node; its kind trains on one."""
    file = read_job_file(scenarios.file_of("gather", samples_directory()).read_text())
    compact, long, small, spread = (job_spec(job) for job in file.jobs)
    taken = [sum(spec.requests_of(name).cpu for name in spec.replicas) for spec in (compact, small)]
    room = scenarios.nodes("gather")[0].capacity
    each = spread.requests_of(spread.replicas[0]).cpu
    assert room - sum(taken) == room - long.requests.cpu == each
    assert file.settings.defragment == "on"
    assert spread.kind == compact.kind
    assert len(spread.replicas) == len(compact.replicas) == 2
