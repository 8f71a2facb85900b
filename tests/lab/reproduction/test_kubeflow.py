"""The Kubeflow scheduler's reproduction: its runs, and that its tables say what was measured."""

from collections import defaultdict

import pytest

from specon_lab.reproduction.kubeflow import MODES, PLACEMENTS, REPRODUCTION, SCENARIOS, SEEDS
from support.lab.quick_runs import measure_quick_runs


@pytest.fixture(scope="module")
def collected():
    """Measures of the quick runs."""
    return measure_quick_runs(REPRODUCTION)


def rows_of(collected):
    return {row.what: row for section in REPRODUCTION.sections(collected)[:1] for row in section.rows}


def made_up(saved):
    """Return measures in which the scheduler needs so many percent less of everything."""
    whole = {"completion": 100.0, "training": 100.0, "makespan": 100.0, "unfinished": 0.0}
    part = {name: value * (1 - saved / 100) for name, value in whole.items()}
    return {
        f"{scenario}/{name}": [part if name in MODES else whole] * 5
        for scenario in SCENARIOS
        for name in (*PLACEMENTS, *MODES)
    }


def test_the_full_runs_are_three_scenarios_two_baselines_and_two_modes():
    """Every seed in every combination."""
    seeds = defaultdict(list)
    for run in REPRODUCTION.runs(False):
        seeds[run.key].append(run.seed)
    assert set(seeds) == {f"{scenario}/{name}" for scenario in SCENARIOS for name in (*PLACEMENTS, *MODES)}
    assert all(each == list(SEEDS) for each in seeds.values())


def test_jobs_complete_sooner_in_each_scenario(collected):
    """Mean completion times are shorter than with the default scheduler, in both modes."""
    rows = [row for what, row in rows_of(collected).items() if what.startswith("completion time")]
    assert len(rows) == len(SCENARIOS) + 1
    for row in rows:
        assert row.literal > 0
        assert row.default > 0


def test_every_job_completes_in_every_run(collected):
    """No mean is of a part of the jobs."""
    assert {run["unfinished"] for runs in collected.values() for run in runs} == {0.0}


@pytest.mark.parametrize(("saved", "reproduced"), [(25.0, False), (27.0, True)])
def test_more_than_26_percent_is_reproduced(saved, reproduced):
    """The mean of the scenarios in the strictest reading is what counts; each row says what was measured."""
    rows = rows_of(made_up(saved))
    means = {what: row for what, row in rows.items() if "mean of 3" in what}
    assert len(means) == 3
    for row in means.values():
        assert row.default == pytest.approx(saved)
        assert row.runs == 5
        assert row.reproduced is (reproduced if "training" in row.what else None)
    other = made_up(saved)
    other["2/default"] = other["2/hashed"]
    assert rows_of(other)["makespan, mean of 3 scenarios"].default == pytest.approx(saved * 2 / 3)


def test_sections_cope_with_what_is_missing():
    """No runs, no tables; of two scenarios there is a mean and no verdict."""
    assert REPRODUCTION.sections({}) == ()
    part = {key: runs[:1] for key, runs in made_up(50.0).items() if not key.startswith("3/")}
    rows = rows_of(part)
    assert rows["makespan, mean of 2 scenarios"].reproduced is None
    assert rows["makespan, mean of 2 scenarios"].spread is None
