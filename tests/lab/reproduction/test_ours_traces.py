"""specon's own policy on published traces: which files are taken, and what is compared with what."""

import shutil
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from specon_lab.engine.run import simulate
from specon_lab.reproduction.ours_traces import RIGID, _beside_others, trace_reproduction
from specon_lab.traces.options import TraceOptions
from specon_lab.traces.read import read_workload

SAMPLES = Path(__file__).parents[3] / "samples" / "simulations"
PUBLISHED = "beside published results"
JOBS = (SAMPLES / "pollux" / "workloads" / "workload-1.csv").read_text().splitlines()[1:]
TIMES = {row.partition(",")[0]: 100 * number for number, row in enumerate(JOBS, start=1)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Return a directory as the authors published theirs, with the samples of this project in it."""
    directory = tmp_path_factory.mktemp("published")
    pollux = directory / "pollux"
    shutil.copytree(SAMPLES / "pollux" / "workloads", pollux / "workloads")
    shutil.copytree(SAMPLES / "pollux" / "traces", pollux / "traces")
    results = pollux / "results-jobload" / "pollux-1.0"
    results.mkdir(parents=True)
    (results / "summary.json").write_bytes(msgspec.json.encode({"jcts": {"workload-1": TIMES}}))
    return directory


@pytest.fixture(scope="module")
def collected(directory):
    """Measures of all runs, by key."""
    found = defaultdict(list)
    for run in trace_reproduction(directory).runs(False):
        path, _, options = run.workload.rpartition(":") if "=" in run.workload else (run.workload, "", "")
        given = TraceOptions(elastic="elastic=false" not in options)
        outcome = simulate(read_workload(Path(path), options=given), run.policy, settings=run.settings)
        found[run.key].append(run.measure(outcome))
    return dict(found)


def test_a_directory_without_traces_is_refused(tmp_path):
    """The error names the directory and what was looked for."""
    with pytest.raises(ValueError, match=r"holds none of .*philly/philly\.csv") as caught:
        trace_reproduction(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_only_traces_that_are_there_are_run(directory):
    """Each policy once on each workload that is found."""
    runs = trace_reproduction(directory).runs(False)
    assert [run.key for run in runs] == [
        "pollux, elastic/progress",
        "pollux, elastic/quota-fifo",
        "pollux, elastic/dragon",
        "pollux, elastic/srpt",
        "pollux, rigid/progress",
        "pollux, rigid/default-scheduler",
        "pollux, rigid/quota-fifo",
        "pollux, rigid/dragon",
        "pollux, rigid/srpt",
    ]
    assert all((run.settings.budgets.preemptions_per_job > 10**5) == (run.policy == "srpt") for run in runs)
    assert {run.settings.tick for run in runs} == {60.0}


def test_published_means_are_those_of_the_summary(directory, collected):
    """The column of the published policy is the mean of its file, ours is what was measured."""
    reproduction = trace_reproduction(directory)
    sections = [s for s in reproduction.sections(collected) if s.title.endswith(PUBLISHED)]
    assert len(sections) == 2
    for section, kind in zip(sections, ("elastic", "rigid"), strict=True):
        row = section.rows[0]
        assert row.what == "pollux: average completion time"
        assert row.paper == pytest.approx(fmean(TIMES.values()))
        assert row.default == collected[f"pollux, {kind}/progress"][0]["average"]


def test_parts_of_a_workload_are_not_held_against_published_times(directory, collected):
    """A job that is missing on either side takes the workload out: fewer jobs have less to wait for."""
    reproduction = trace_reproduction(directory)
    key = "pollux, rigid/progress"
    fewer = {name: value for name, value in collected[key][0].items() if not name.endswith("/toy-2")}
    assert len(fewer) < len(collected[key][0])
    sections = reproduction.sections({**collected, key: [fewer]})
    assert [s.title for s in sections if s.title.endswith(PUBLISHED)] == [
        s.title for s in reproduction.sections(collected)[:1]
    ]


def test_the_bound_is_not_judged(directory, collected):
    """Rows beside SRPT show both means and no verdict; the others have one, given five workloads."""
    section = _beside_others({key: found * 5 for key, found in collected.items()}, RIGID)
    verdicts = {row.what.split(":")[0]: row.reproduced for row in section.rows if "average" in row.what}
    assert verdicts.pop("srpt, which knows the future") is None
    assert verdicts.keys() == {"default-scheduler", "quota-fifo", "dragon"}
    assert all(verdict is not None for verdict in verdicts.values())
    single = trace_reproduction(directory).sections(collected)[-1]
    assert {row.reproduced for row in single.rows} == {None}


def test_fairness_and_who_is_hurt_are_columns_of_every_policy(collected):
    """The table without verdicts has a line for each policy, and fairness is judged below 2."""
    section = _beside_others({key: found * 5 for key, found in collected.items()}, RIGID)
    assert [line.what for line in section.lines] == [
        *("progress", "default-scheduler", "quota-fifo"),
        *("dragon", "srpt"),
    ]
    fairness = next(row for row in section.rows if row.what.startswith("finish-time fairness"))
    ours = dict(zip(section.columns, section.lines[0].figures, strict=True))
    assert ours["finish-time fairness, p99"] == fairness.default
    assert fairness.reproduced is (fairness.default < 2)


def test_no_runs_no_tables(directory):
    """Without measures there is nothing to show."""
    assert trace_reproduction(directory).sections({}) == []
