"""Policies, settings and workloads as they are written on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_lab.commands.simulation_choice import assignments, read_policies, read_settings, split
from specon_lab.commands.simulation_workload import Source
from specon_manager.model.settings import Settings
from specon_manager.usage import UsageError


def test_a_policy_is_a_name_with_parameters():
    """Numbers, truth values and names; the label is what was typed."""
    (choice,) = read_policies(["specon:min_growing=2,literal=true"], None)
    assert choice.name == "specon"
    assert choice.label == "specon:min_growing=2,literal=true"
    assert choice.parameters == {"min_growing": 2, "literal": True}


def test_an_object_is_written_as_json():
    """Its commas divide nothing."""
    (choice,) = read_policies(['quota-fifo:shares={"a": 0.5, "b,c": 0.25},borrow=false'], None)
    assert choice.parameters == {"shares": {"a": 0.5, "b,c": 0.25}, "borrow": False}


def test_the_baseline_runs_too():
    """Once, whether it was asked for or not."""
    assert [each.label for each in read_policies(["specon"], "srpt")] == ["specon", "srpt"]
    assert [each.label for each in read_policies(["srpt", "specon"], "srpt")] == ["srpt", "specon"]


@pytest.mark.parametrize(
    ("policies", "baseline", "message"),
    [
        (["specom"], None, "--policy: policy: 'specom' is not one of"),
        (["specon"], "nobody", "--baseline: policy: 'nobody' is not one of"),
        (["specon:weight=1"], None, "--policy: parameters of policy specon: .*weight"),
        (["specon:min_growing=two"], None, "--policy: parameters of policy specon: .*min_growing"),
        (["specon:min_growing=1,min_growing=2"], None, "--policy: min_growing is given twice"),
        (["specon:literal"], None, "--policy: 'literal' is not of the form key=value"),
        (["specon:,"], None, "--policy: '' is not of the form key=value"),
        (["specon", "specon"], None, "--policy: specon is given 2 times"),
        (["specon:watching_weight=NaN"], None, "--policy: parameters of policy specon: .*watching_weight"),
    ],
)
def test_a_wrong_policy_is_one_sentence_that_names_the_flag(policies, baseline, message):
    """And the parameter, and the value."""
    with pytest.raises(UsageError, match=message):
        read_policies(policies, baseline)


def test_settings_change_what_they_name():
    """All others stay as they were."""
    defaults = Settings(policy="specon", tick=20.0)
    found = read_settings(["gate.enabled=false,budgets.moves_at_once=9", "retention=7"], defaults)
    assert (found.gate.enabled, found.budgets.moves_at_once, found.retention) == (False, 9, 7)
    assert (found.tick, found.deadlines) == (20.0, defaults.deadlines)
    assert read_settings([], defaults) == defaults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tick=soon", "--settings: .*float.*tick"),
        ("tick=-1", "--settings: .*tick"),
        ("tack=1", "--settings: .*tack"),
        ("gate.on=true", "--settings: .*on"),
        ("gates.enabled=true", "--settings: gates.enabled: there is no gates"),
        ("tick.x=1", "--settings: tick.x: there is no tick"),
        ("policy=srpt", "--settings: policy is chosen by --policy"),
        ("parameters.literal=true", "--settings: parameters.literal is chosen by --policy"),
        ("tick", "--settings: 'tick' is not of the form key=value"),
        ("=1", "--settings: '=1' is not of the form key=value"),
    ],
)
def test_a_wrong_setting_is_one_sentence(text, message):
    """It names the key."""
    with pytest.raises(UsageError, match=message):
        read_settings([text], Settings(policy="specon"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("0.5", 0.5),
        ("true", True),
        ("none", None),
        ("null", None),
        ("x", "x"),
        ("", ""),
        ("1e", "1e"),
    ],
)
def test_a_value_is_json_or_text(text, value):
    """A name needs no quotes."""
    assert dict(assignments([f"key={text}"])) == {"key": value}


@given(st.text(max_size=60))
def test_splitting_loses_nothing(text):
    """The parts with their commas are the text."""
    assert ",".join(split(text)) == text


@given(st.text(max_size=60))
def test_whatever_is_typed_is_a_policy_or_an_error_of_usage(text):
    """Nothing else is ever raised."""
    for flag in (f"specon:{text}", text):
        try:
            assert read_policies([flag], None)[0].label == flag
        except UsageError as error:
            assert "--policy" in str(error)  # noqa: PT017  (either outcome is right)


@given(st.text(max_size=60))
def test_whatever_is_typed_is_settings_or_an_error_of_usage(text):
    """Nothing else is ever raised."""
    try:
        read_settings([text], Settings(policy="specon"))
    except UsageError as error:
        assert "--settings" in str(error)  # noqa: PT017  (either outcome is right)


NODES = "name,count,cpu,memory,gpu\nbig,2,8,64G,2\n"
JOBS = "name,at,seconds,workers,gpu\na,0,100,1,1\nb,5,50,2,1\n"


@pytest.fixture
def files(tmp_path):
    """Return the paths of a trace and of a list of nodes."""
    jobs, nodes = tmp_path / "jobs.csv", tmp_path / "nodes.csv"
    jobs.write_text(JOBS)
    nodes.write_text(NODES)
    return jobs, nodes


def test_a_workload_is_made_up_by_name():
    """With its settings, a seed, and as many jobs as are wanted."""
    workload = Source(text="poisson:jobs=30,nodes=3", most_jobs=7).read(5)
    assert (len(workload.jobs), len(workload.nodes), workload.seed) == (7, 3, 5)
    assert workload == Source(text="poisson:jobs=30,nodes=3", most_jobs=7).read(5)
    assert workload.jobs != Source(text="poisson:jobs=30,nodes=3", most_jobs=7).read(6).jobs


def test_a_workload_is_the_file_of_a_trace(files):
    """Also on other nodes; a seed changes nothing that the file says."""
    jobs, nodes = files
    workload = Source(text=str(jobs), nodes=nodes).read(3)
    assert [job.spec.name for job in workload.jobs] == ["default/a", "default/b"]
    assert [node.capacity.gpu for node in workload.nodes] == [2.0, 2.0]
    assert workload.seed == 3
    assert Source(text=str(jobs), nodes=nodes).read(4).jobs == workload.jobs


def test_a_trace_is_read_with_options(files):
    """Behind a colon, like the settings of a workload."""
    jobs, _ = files
    workload = Source(text=f"{jobs}:limit=1,nodes=5").read(0)
    assert (len(workload.jobs), len(workload.nodes)) == (1, 5)


def test_a_file_may_have_a_colon_in_its_name(files):
    """What exists is a file."""
    odd = files[0].with_name("a:limit=1")
    odd.write_text(JOBS)
    assert len(Source(text=str(odd)).read(0).jobs) == 2


def test_made_up_jobs_may_run_on_other_nodes(files):
    """The nodes of the file, not of the workload."""
    workload = Source(text="poisson:jobs=3", nodes=files[1]).read(0)
    assert [node.name for node in workload.nodes] == ["big-1", "big-2"]


def test_what_is_worth_knowing_is_told(files):
    """A job that no node can take, for instance."""
    jobs, nodes = files
    jobs.write_text(JOBS + "c,6,10,1,99\n")
    split, large = Source(text=str(jobs), nodes=nodes).warnings(0)
    assert "split over nodes" in split
    assert "larger than the cluster" in large


def test_every_mistake_of_a_trace_is_told(files):
    """Each on a line of its own, behind the flag."""
    jobs, _ = files
    jobs.write_text("name,at,seconds\na,-1,5\nb,0,nan\n")
    with pytest.raises(UsageError) as raised:
        Source(text=str(jobs)).read(0)
    lines = str(raised.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("--workload: jobs.csv, row") for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "--workload: 'nothing' is neither the file of a trace nor one of specon-fixed"),
        ("poisson:job=3", "--workload: workload poisson: 'job' is not one of jobs"),
        ("poisson:jobs=0", "--workload: workload poisson: jobs"),
        ("{folder}", "is neither the file of a trace"),
        ("{folder}/jobs.csv:limits=1", "--workload: .*jobs.csv: 'limits' is not one of limit"),
        ("{folder}/jobs.csv:limit=0", "--workload: .*jobs.csv: limit"),
    ],
)
def test_a_wrong_workload_is_one_sentence(text, message, files):
    """It names what there is."""
    with pytest.raises(UsageError, match=message):
        Source(text=text.format(folder=files[0].parent)).read(0)


def test_wrong_nodes_are_told(files):
    """A file that is not there, one of jobs, one with a mistake."""
    jobs, nodes = files
    for path, message in ((jobs, "lists no nodes"), (nodes.with_name("none"), "No such file")):
        with pytest.raises(UsageError, match=f"--nodes: .*{message}"):
            Source(text="poisson", nodes=path).read(0)
    nodes.write_text("count,gpu\n0,1\n")
    with pytest.raises(UsageError, match=r"--nodes: nodes\.csv: .*count"):
        Source(text="poisson", nodes=nodes).read(0)
