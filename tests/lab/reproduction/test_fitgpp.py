"""FitGpp's reproduction: rows of the paper's tables, made of what was measured."""

from collections import defaultdict

import pytest

from specon_lab.engine.run import simulate
from specon_lab.reproduction import fitgpp_runs as keys
from specon_lab.reproduction.fitgpp import REPRODUCTION
from specon_lab.workloads.table import workload_named
from support.lab.quick_runs import carry_out


@pytest.fixture(scope="module")
def measured():
    """Return what was measured of the runs of the tables in the quick set."""
    found = defaultdict(list)
    for run in REPRODUCTION.runs(True):
        if not run.key.startswith(("table/", "unlimited/")):
            continue
        found[run.key].append(carry_out(run))
    return found


def rows_of(collected):
    """Return the rows by title of the section and name."""
    return {
        (section.title, row.what): row for section in REPRODUCTION.sections(collected) for row in section.rows
    }


def test_the_papers_numbers_are_there(measured):
    """Table 1 has 24, Table 2 12, Table 3 3, Table 4 9, and the abstract 3."""
    counts = defaultdict(int)
    for (title, _), row in rows_of(measured).items():
        counts[title.partition(":")[0]] += row.paper is not None
    assert {name: count for name, count in counts.items() if count} == {
        "Table 1": 24,
        "Abstract": 3,
        "Table 2": 12,
        "Table 3": 3,
        "Table 4": 9,
    }


def test_every_run_is_shown():
    """The figure of any key appears in a row: with its measures changed, the rows are others."""
    zeros = dict.fromkeys(
        [
            *(f"{name}-{p}" for name in ("trial", "best-effort", "interval") for p in keys.PERCENTILES),
            *("preempted", "preempted-1", "preempted-2", "preempted-3"),
        ],
        1.0,
    )
    for quick in (True, False):
        names = {run.key for run in REPRODUCTION.runs(quick)}
        everything = {key: [zeros] for key in names}
        before = rows_of(everything)
        for key in names:
            changed = rows_of(everything | {key: [dict.fromkeys(zeros, 3.0)]})
            assert changed != before, key


def test_nothing_measured_gives_no_figures():
    """Missing keys are no error, and claim nothing."""
    rows = rows_of({})
    assert rows
    assert all(row.literal is None and row.reproduced is None for row in rows.values())


def test_trials_gain_and_best_effort_jobs_pay(measured):
    """Under each preemptive policy trials are much faster than under FIFO, and best-effort jobs slower."""
    fifo = measured["table/fifo"][0]
    for policy in keys.PREEMPTIVE:
        run = measured[keys.table(policy, "literal")][0]
        assert run["trial-95"] < fifo["trial-95"] / 4
        assert run["best-effort-50"] > fifo["best-effort-50"]
        assert run["unfinished"] == 0


def test_fitgpp_preempts_fewest_and_soonest(measured):
    """Table 2 and 3: fewer victims than LRTP and RAND, with shorter intervals."""
    fitgpp = measured[keys.table("fitgpp", "literal")][0]
    for policy in ("lrtp", "rand"):
        other = measured[keys.table(policy, "literal")][0]
        assert fitgpp["preempted"] < other["preempted"] / 2
        assert fitgpp["interval-50"] < other["interval-50"]


def test_a_cap_holds_and_its_absence_shows(measured):
    """P = 1: nobody is preempted twice."""
    for policy in keys.PREEMPTIVE:
        assert measured[keys.table(policy, "literal")][0]["preempted-2"] == 0
    assert any(measured[keys.unlimited_key(policy)][0]["preempted-2"] > 0 for policy in ("lrtp", "rand"))


def test_intervals_are_those_of_the_grace_periods():
    """The room is given away at the first minute after the grace period, or later."""
    workload = workload_named("fitgpp:config=A,jobs=300,nodes=8", 1)
    graces = {job.spec.name: job.spec.grace_seconds for job in workload.jobs}
    outcome = simulate(workload, "fitgpp", settings=keys.LITERAL, ticks_only=True)
    intervals = [(job.intervals[0], graces[job.name]) for job in outcome.jobs if job.intervals]
    assert intervals
    assert all(interval % 60 == 0 and interval >= grace for interval, grace in intervals)


def test_verdicts_are_those_of_the_tolerances():
    """Five seeds with the paper's figure reproduce it, with half of it they do not; four are neither."""
    key, name = (
        keys.table("lrtp", "literal"),
        ("Table 1: slowdowns", "LRTP, best-effort jobs, 50th percentile"),
    )
    verdicts = [
        rows_of({key: [{"best-effort-50": value}] * count})[name].reproduced
        for value, count in ((3.78, 5), (1.89, 5), (3.78, 4))
    ]
    assert verdicts == [True, False, None]


def test_a_changed_measure_changes_its_row(measured):
    """The page cannot be made of anything but what was measured."""
    before = rows_of(measured)
    key = keys.table("fitgpp", "literal")
    faked = {**measured, key: [{**measured[key][0], "best-effort-50": 99.0}]}
    changed = {name for name, row in rows_of(faked).items() if row != before[name]}
    assert ("Table 1: slowdowns", "FitGpp, best-effort jobs, 50th percentile") in changed
    assert {title for title, _ in changed} == {
        "Table 1: slowdowns",
        "Abstract: what trials gain and best-effort jobs lose",
        "The number of jobs",
    }
