"""KOD2's reproduction: its runs, and that its tables say what was measured."""

import pickle
from collections import defaultdict

import pytest

from specon_lab.engine.run import simulate
from specon_lab.reproduction.kod2 import REPRODUCTION
from specon_lab.reproduction.kod2_runs import CELLS, SEEDS, measure
from specon_lab.reproduction.kod2_tables import computed_increase, held_increase, reduction
from specon_lab.workloads.table import workload_named
from support.lab.quick_runs import measure_quick_runs


@pytest.fixture(scope="module")
def collected():
    """Measures of the quick runs."""
    return measure_quick_runs(REPRODUCTION)


def rows_of(collected):
    return {
        (section.title, row.what): row for section in REPRODUCTION.sections(collected) for row in section.rows
    }


def use(makespan, **values):
    return {"jct": makespan, "makespan": makespan} | {
        name.replace("_", " "): value for name, value in values.items()
    }


def test_the_full_runs_are_20_cells_in_both_modes_and_can_travel():
    """4 models with 5 batches, the baseline and two modes each, the same tables of requests for all."""
    runs = REPRODUCTION.runs(False)
    seeds = defaultdict(list)
    for run in runs:
        seeds[run.key].append(run.seed)
    assert len(CELLS) == 20
    for cell in CELLS:
        for operator in ("tf-operator", "kod2/literal", "kod2/default"):
            assert seeds[cell.key(operator)] == list(SEEDS)
    assert pickle.loads(pickle.dumps(runs[0])).key == runs[0].key


def test_kod2_is_faster_than_the_baseline_in_every_cell_of_the_quick_runs(collected):
    """Completion times are shorter, and more processor time is used, in both modes."""
    rows = rows_of(collected)
    checked = [row for (_, what), row in rows.items() if what.startswith(("reduction, ", "processor time, "))]
    assert len(checked) == 3 + 2 + 1
    for row in checked:
        assert row.literal > 0
        assert row.default > 0


def test_every_job_completes_in_every_run(collected):
    """A time-out puts a gang back, and it is complete in the end: no mean is of a part of the jobs."""
    assert {run["unfinished"] for runs in collected.values() for run in runs} == {0.0}


def test_a_killed_job_counts_no_longer_than_a_complete_one(collected):
    """Until it was put back first is never after it was complete."""
    for runs in collected.values():
        for run in runs:
            assert run["killed jct"] <= run["jct"] + 1e-9


def test_a_measure_that_changes_changes_its_row(collected):
    """Half the completion time of the default mode raises its reduction, and of no other mode."""
    key = "vgg-16/128/kod2/default"
    other = collected | {key: [{**run, "jct": run["jct"] / 2} for run in collected[key]]}
    name = ("Figure 7: average completion time, reduction by KOD2", "reduction, vgg-16, batch 128")
    before, after = rows_of(collected)[name], rows_of(other)[name]
    assert after.default == pytest.approx(50 + before.default / 2)
    assert after.literal == before.literal


def test_verdicts_follow_the_bounds(collected):
    """The paper's largest reduction is reproduced between 74 and 90 %, and not outside, with five seeds."""
    title = "Figure 7: average completion time, reduction by KOD2"

    def verdict(percent, seeds=5):
        changed = {
            key: [{**run, "jct": 100.0 if "tf-operator" in key else 100.0 - percent} for run in runs]
            for key, runs in collected.items()
        }
        rows = rows_of({key: (runs * 5)[:seeds] for key, runs in changed.items()})
        assert rows[title, "largest of 3 cells"].reproduced is None  # the same figure once more
        return rows[title, "reduction, vgg-16, batch 128"].reproduced

    assert [verdict(percent) for percent in (73.0, 84.0, 91.0)] == [False, True, False]
    assert verdict(84.0, seeds=4) is None


def test_sections_cope_with_what_is_missing(collected):
    """No runs, no tables; without the literal mode its column is empty; one seed shows no spread."""
    assert REPRODUCTION.sections({}) == ()
    part = {key: runs[:1] for key, runs in collected.items() if "literal" not in key}
    rows = rows_of(part)
    assert set(rows) == set(rows_of(collected))
    assert all(row.literal is None and row.spread is None for row in rows.values())


def test_reduction_is_relative_to_the_baseline():
    """From 400 s to 100 s is 75 %."""
    assert reduction({"jct": 100.0}, {"jct": 400.0}) == 75.0


def test_use_is_compared_until_kod2_is_through():
    """Between two kept moments it is interpolated; what the baseline does later does not count."""
    run = use(90.0, held_1=60.0, held_2=90.0, computed_1=60.0, computed_2=80.0)
    baseline = use(600.0, held_1=20.0, held_2=40.0, computed_1=10.0, computed_2=30.0)
    assert held_increase(run, baseline) == pytest.approx(100 * (75 / 30 - 1))
    assert computed_increase(run, baseline) == pytest.approx(100 * (70 / 20 - 1))
    assert computed_increase(use(1e6), baseline) is None


def test_all_the_work_is_computed_in_the_end(collected):
    """Baseline and KOD2 compute the same core seconds, and no more than the jobs hold."""

    def last(run, what):
        return max(value for name, value in run.items() if name.startswith(f"{what} "))

    for seed in range(2):
        runs = [
            collected[f"vgg-16/64/{name}"][seed] for name in ("tf-operator", "kod2/literal", "kod2/default")
        ]
        totals = [last(run, "computed") for run in runs]
        assert totals == pytest.approx([totals[0]] * 3)
        assert all(total <= last(run, "held") for total, run in zip(totals, runs, strict=True))


def test_measures_are_of_the_outcome():
    """The mean over ten jobs of what the simulation says."""
    outcome = simulate(workload_named("kod2:model=vgg-16,batch=128", 5), "kod2")
    mean = sum(job.completion_seconds for job in outcome.jobs) / 10
    assert measure(outcome)["jct"] == pytest.approx(mean)
    assert measure(outcome)["killed"] == 0
