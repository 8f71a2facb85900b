"""Who finishes later than under another policy is told by how much, and by what grew most."""

import pytest

from specon_lab.engine.outcome import JobOutcome, Outcome
from specon_lab.engine.slowness import Slowness
from specon_lab.reproduction.hurt import Hurt, hurt, main, row


def outcome(**times):
    """Return a run whose one job waited, paused and trained for so long, seconds."""
    preemptions = times.pop("preemptions", 0)
    waited, paused, trained = (times.get(each, 0.0) for each in ("waited", "paused", "trained"))
    job = JobOutcome(
        name="a",
        job_class="best-effort",
        kind="",
        state=times.get("state", "completed"),
        submitted_at=0.0,
        started_at=waited,
        ended_at=waited + paused + trained,
        ideal_seconds=100.0,
        waited_seconds=waited,
        paused_seconds=paused,
        trained_seconds=trained,
        lost_seconds=times.get("lost", 0.0),
        slowness=times.get("slowness", Slowness()),
        preemptions=preemptions,
    )
    return Outcome(workload="w", policy="p", seed=0, jobs=(job,), makespan=1.0, allocated=1.0, used=1.0)


BEFORE = outcome(waited=50.0, trained=150.0, slowness=Slowness(smaller=50.0))


@pytest.mark.parametrize(
    ("ours", "cause"),
    [
        (outcome(waited=90.0, trained=150.0), "waits"),
        (outcome(waited=90.0, trained=150.0, preemptions=1), "preempted"),
        (outcome(waited=50.0, paused=40.0, trained=150.0), "paused"),
        (outcome(waited=50.0, trained=190.0, slowness=Slowness(smaller=90.0)), "smaller"),
        (outcome(waited=50.0, trained=190.0, slowness=Slowness(smaller=50.0, apart=40.0)), "apart"),
        (outcome(waited=50.0, trained=190.0, slowness=Slowness(crowded=90.0)), "crowded"),
        (outcome(waited=50.0, trained=190.0, slowness=Slowness(crowded=40.0, outweighed=50.0)), "outweighed"),
        (outcome(waited=50.0, trained=190.0, slowness=Slowness(smaller=50.0), lost=40.0), "redone"),
    ],
)
def test_the_cause_is_what_grew_most(ours, cause):
    """A job that is preempted waits for that reason; a slower one is told by what of its speed fell most."""
    assert hurt(ours, BEFORE) == [Hurt(20.0, 40.0, cause)]


def test_who_is_less_than_one_percent_later_or_does_not_complete_is_not_told():
    """The same bound as in the tables, and no difference where there is no time."""
    assert hurt(outcome(waited=51.0, trained=150.0), BEFORE) == []
    assert hurt(outcome(waited=90.0, trained=150.0, state="unfinished"), BEFORE) == []


def test_a_row_has_shares_of_all_jobs_and_medians_of_the_hurt():
    """Nobody hurt: zeros."""
    found = [Hurt(20.0, 40.0, "waits"), Hurt(4.0, 8.0, "redone")]
    nothing = " | ".join(["0.0"] * 6)
    assert (
        row("w", found, 4, [40.4, 50.0])
        == f"| w | 40 | 50 | 50.0 | 25.0 | 25.0 | {nothing} | 25.0 | 12 | 24 |"
    )
    assert row("w", [], 4, [1.0, 1.0]) == f"| w | 1 | 1 | 0.0 | 0.0 | 0.0 | {nothing} | 0.0 | 0 | 0 |"


def test_the_table_has_a_row_for_each_workload_that_is_named():
    """The workload without chance is run once, whatever the number of seeds."""
    lines = list(main(["dragon-table1", "--seeds", "3"]))
    assert len(lines) == 3
    assert lines[2].startswith("| dragon-table1 | ")
