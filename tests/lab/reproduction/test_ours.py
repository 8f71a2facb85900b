"""specon's own policy against the papers': rows follow from what was measured, and small runs are won."""

from collections import defaultdict
from statistics import fmean

import pytest

from specon_lab.reproduction.ours import REPRODUCTION
from specon_lab.reproduction.ours_runs import AVERAGE, CONTESTS, JOB
from specon_lab.reproduction.ours_tables import (
    compare_means,
    compare_pairs,
    later_row,
    part_of_the_way,
    share_later,
)
from support.lab.quick_runs import measure_quick_runs

QUICK = {"specon-fixed", "specon-random", "kod2 vgg-16, 32", "dragon-table1", "kubeflow, scenario 3"}


@pytest.fixture(scope="module")
def collected():
    """Measures of the quick runs."""
    return measure_quick_runs(REPRODUCTION)


def rows_of(collected, beginning):
    """Rows by workload of the section whose title begins so."""
    section = next(s for s in REPRODUCTION.sections(collected) if s.title.startswith(beginning))
    return {row.what: row for row in section.rows}


def test_full_runs_are_twenty_seeds_of_every_workload_and_policy():
    """Each key has 20 seeds, but for the workload without chance; both baselines and the bound are in all."""
    seeds = defaultdict(set)
    for run in REPRODUCTION.runs(False):
        seeds[run.key].add(run.seed)
    for contest in CONTESTS:
        shared = ("progress", "default-scheduler", "quota-fifo", "srpt")
        policies = [f"{policy}/default" for policy in shared]
        policies += [f"{contest.rival}/{mode}" for mode in ("default", "literal")]
        for policy in policies:
            expected = set(range(20)) if contest.random else {0}
            assert seeds.pop(f"{contest.name}/{policy}") == expected
    assert not seeds


def test_rows_of_the_quick_runs(collected):
    """Every table has a row for each workload that was run, and none for the others."""
    for beginning in (
        "Average completion time beside the paper",
        "The same",
        "Jobs that finish",
        "Average completion time beside quota",
    ):
        assert rows_of(collected, beginning).keys() == QUICK
    ways = rows_of(collected, "How far")
    assert {"specon-fixed", "specon-random"} <= ways.keys() <= QUICK
    assert all("a job is preempted" in row.note for row in ways.values())


def test_two_seeds_are_a_first_look_and_no_verdict(collected):
    """Nothing of a quick run is judged."""
    assert {row.reproduced for section in REPRODUCTION.sections(collected) for row in section.rows} == {None}


def test_every_policy_stands_in_the_table_of_all_figures(collected):
    """Ours, both baselines, the bound and the paper's policy, each with what it hurts beside quota FIFO."""
    section = REPRODUCTION.sections(collected)[-1]
    lines = {line.what: dict(zip(section.columns, line.figures, strict=True)) for line in section.lines}
    assert len(lines) == 5 * len(QUICK)
    hurt = "later than with quota-fifo (%)"
    assert lines["kod2 vgg-16, 32: quota-fifo"][hurt] is None
    assert lines["kod2 vgg-16, 32: default-scheduler"][hurt] > 50.0
    assert (
        lines["specon-fixed: progress"]["to convergence (s)"]
        < lines["specon-fixed: progress"]["completion (s)"]
    )
    assert all(each["finish-time fairness, p99"] > 0 for each in lines.values())


def test_the_better_of_two_baselines_is_the_one_with_the_lower_mean():
    """And the share of jobs that are later is against that one; the other's stands in the note."""
    ours = {AVERAGE: 100.0, f"{JOB}a": 100.0, f"{JOB}b": 100.0}
    better = {AVERAGE: 95.0, f"{JOB}a": 90.0, f"{JOB}b": 100.0}
    worse = {AVERAGE: 200.0, f"{JOB}a": 300.0, f"{JOB}b": 99.0 / 1.02}
    runs = {"x/ours": [ours] * 5, "x/one": [worse] * 5, "x/other": [better] * 5}
    row = later_row("x", runs, "x/ours", ["x/one", "x/other"])
    assert (row.default, row.reproduced) == (50.0, False)
    assert row.note == "the better is other; one: 50.0 %"
    assert later_row("x", {**runs, "x/other": [ours] * 5}, "x/ours", ["x/one", "x/other"]).reproduced is True
    few = {key: found[:4] for key, found in runs.items()}
    assert later_row("x", few, "x/ours", ["x/one", "x/other"]).reproduced is None


def test_ours_is_lower_than_papers_policy_and_kube_scheduler(collected):
    """On the quick runs our mean is below that of both, and rows show the means that were measured."""
    for beginning in ("Average completion time beside the paper", "Average completion time beside kube"):
        for name, row in rows_of(collected, beginning).items():
            assert row.default < row.paper, name
            assert row.default == fmean(each[AVERAGE] for each in collected[f"{name}/progress/default"])


def test_papers_policy_is_taken_in_its_better_mode(collected):
    """The figure beside ours is the lower of the two modes' means, and the note names the mode."""
    for name, row in rows_of(collected, "Average completion time beside the paper").items():
        rival = next(contest.rival for contest in CONTESTS if contest.name == name)
        means = {
            mode: fmean(each[AVERAGE] for each in collected[f"{name}/{rival}/{mode}"])
            for mode in ("default", "literal")
        }
        assert row.paper == min(means.values())
        assert any(f"{rival}, {mode}" in row.note and means[mode] == row.paper for mode in means)


def test_a_changed_measure_changes_the_row(collected):
    """Nothing on the page is written down: ours ten times slower is missed by either test."""
    key = "dragon-table1/progress/default"
    many = {name: found * 5 for name, found in collected.items()}
    slower = [{name: 10 * value for name, value in each.items()} for each in many[key]]
    changed = {**many, key: slower}
    beginning = "Average completion time beside the paper"
    before, after = (rows_of(each, beginning)["dragon-table1"] for each in (many, changed))
    assert before.reproduced is True
    assert (after.reproduced, after.default) == (False, pytest.approx(10 * before.default))
    assert rows_of(changed, "The same")["dragon-table1"].reproduced is False
    assert rows_of(changed, "Jobs that finish")["dragon-table1"].reproduced is False


def test_missing_runs_leave_rows_out(collected):
    """Sections cope with runs that were not made, down to none at all."""
    assert REPRODUCTION.sections({}) == []
    some = {key: found for key, found in collected.items() if "/srpt/" not in key}
    assert not any("SRPT" in section.title for section in REPRODUCTION.sections(some))


def test_intervals_must_not_overlap():
    """A lower mean with overlapping intervals is no win; fewer than five runs are not judged."""
    theirs, ours = [100.0, 200.0, 300.0, 400.0, 500.0], [90.0, 190.0, 290.0, 390.0, 490.0]
    assert compare_means("x", theirs, ours).reproduced is False
    assert compare_pairs("x", theirs, ours).reproduced is True
    assert compare_means("x", [900.0 + x for x in theirs], ours).reproduced is True
    assert compare_means("x", theirs[:4], [1.0, 2.0, 3.0, 4.0]).reproduced is None
    assert compare_means("x", [5.0], [4.0]).reproduced is None


def test_jobs_that_are_later():
    """More than 1 % counts, and so does a job that does not complete; one that only theirs leaves: no."""
    ours = [{f"{JOB}a": 102.0, f"{JOB}b": 100.5, f"{JOB}d": 1.0, AVERAGE: 9.0}]
    theirs = [{f"{JOB}a": 100.0, f"{JOB}b": 100.0, f"{JOB}c": 100.0, AVERAGE: 1.0}]
    assert share_later(ours, theirs) == 50.0
    assert share_later([], []) is None


def test_part_of_the_way():
    """Half of the difference of the means is 50 %; without one of at least 2 % there is no way."""
    assert part_of_the_way([100.0, 300.0], [150.0, 150.0], [100.0, 100.0]) == 50.0
    assert part_of_the_way([100.0], [100.0], [100.0]) is None
    assert part_of_the_way([100.0], [100.0], [98.5]) is None
