from __future__ import annotations

import io
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from specon_manager.cli.run.comparison import (
    ResultFile,
    Verdict,
    compare,
    conclusions,
    print_comparison,
    to_json,
    write_json,
)
from specon_manager.cli.run.machine_load import Load
from specon_manager.cli.run.result import JobResult, Machine, RunResult
from specon_manager.cli.run.transaction_results import TransactionResult
from specon_manager.model.transactions import Kind, TransactionState
from specon_sidecar.classify import Category

RUNS = "still runs"


def job(name, took, moves=1):
    """Return the result of a job that took so long, failed (None) or still runs."""
    done = isinstance(took, float)
    return JobResult(
        name=name,
        submitted_at=0.0,
        finished_at=None if took == RUNS else took if done else 1.0,
        completion_seconds=took if done else None,
        succeeded=done,
        moves=moves,
        downtimes=(),
        steps_lost=0,
        crashes=0,
        category=Category.CONVERGED,
        steps=10,
    )


def run(policy="specon", makespan=None, load=None, moves=1, **took):
    """Return the result of a run whose jobs took so long, and were moved so often."""
    return RunResult(
        policy=policy,
        jobs=tuple(job(name, seconds, moves) for name, seconds in took.items()),
        average_completion_seconds=None,
        makespan_seconds=makespan,
        moves_by_outcome={},
        moves=(),
        placements=(),
        machine=Machine(nodes=1, cpus=2.0, names=("node-0",)),
        load=load,
    )


def printed(comparison):
    """Return what is printed on a page of 80 columns."""
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=False)
    print_comparison(comparison, console)
    return console.export_text()


@pytest.mark.parametrize(
    ("with_moves", "without", "verdict"),
    [
        (97.0, 100.0, Verdict.HELPED),
        (98.0, 100.0, Verdict.UNCHANGED),
        (102.0, 100.0, Verdict.UNCHANGED),
        (102.1, 100.0, Verdict.HURT),
        (None, 100.0, Verdict.HURT),
        (100.0, None, Verdict.HELPED),
        (None, None, Verdict.NOT_COMPARABLE),
        (RUNS, 100.0, Verdict.NOT_COMPARABLE),
        (100.0, RUNS, Verdict.NOT_COMPARABLE),
        (5.0, 0.0, Verdict.NOT_COMPARABLE),
    ],
)
def test_a_job_is_helped_or_hurt_beyond_two_per_cent(with_moves, without, verdict):
    """More than 2 % faster is helped, more than 2 % slower is hurt, and a failure is worse than any time."""
    comparison = compare(run(a=with_moves), run(a=without))
    assert comparison.jobs[0].verdict is verdict
    counts = (comparison.helped, comparison.hurt, comparison.unchanged, comparison.not_comparable)
    assert sum(counts) == 1
    assert not comparison.no_verdict


def test_differences_are_relative_to_the_run_without_moves():
    """A negative difference means faster with moves, its percentage is of the time without."""
    each = compare(run(a=90.0), run(a=120.0)).jobs[0].completion
    assert (each.with_moves, each.without, each.seconds, each.percent) == (90.0, 120.0, -30.0, -25.0)


def test_the_average_is_over_jobs_that_succeeded_in_both():
    """A slow job that failed in one run makes that run look no faster."""
    comparison = compare(run(a=10.0, b=None), run(a=12.0, b=500.0))
    average = comparison.average_completion
    assert (average.with_moves, average.without) == (10.0, 12.0)
    assert conclusions(comparison)[0] == "average completion 12.0 s -> 10.0 s (-16.7 %, better), 1 job"


def test_a_worse_result_reads_as_worse():
    """The words follow the numbers in both directions, and an equal one is called the same."""
    worse = compare(run(a=13.0, makespan=13.0), run("round-robin", a=12.3, makespan=13.0))
    assert conclusions(worse) == [
        "average completion 12.3 s -> 13.0 s (+5.7 %, worse), 1 job",
        "makespan 13.0 s -> 13.0 s (+0.0 %, the same)",
        "jobs: 0 helped, 1 hurt, 0 unchanged (within 2 %)",
    ]


def busy(others, own=None, seconds=100.0):
    """Return the load of a machine of two CPUs of which others took so many processor seconds."""
    return Load(
        cpus=2, seconds=seconds, own=2 * seconds - (others or 0) if own is None else own, others=others
    )


def test_where_nothing_was_moved_there_is_no_verdict():
    """Two runs of the same jobs differ by what the machine did: nobody is called better, helped or hurt."""
    first = run(a=40.0, b=60.0, makespan=60.0, moves=0, load=busy(10.0))
    second = run("round-robin", a=50.0, b=55.0, makespan=55.0, moves=0, load=busy(10.0))
    comparison = compare(first, second)
    assert not comparison.moved
    assert {each.verdict for each in comparison.jobs} == {Verdict.NO_VERDICT}
    said = conclusions(comparison)
    assert said == [
        "nothing was moved, so what differs is no doing of moves: no verdict",
        "average completion 52.5 s -> 50.0 s (-4.8 %), 2 jobs",
        "makespan 55.0 s -> 60.0 s (+9.1 %)",
        "jobs: 0 helped, 0 hurt, 0 unchanged (within 2 %), 2 without a verdict",
        "load: others took 5% of 2 CPUs without moves, 5% with them",
    ]
    assert "better" not in printed(comparison)


def test_a_run_that_scaled_a_job_moved_something():
    """Changes of jobs that trained count; admissions alone do not."""
    change = TransactionResult(
        id="scale-in-1",
        job="default/a",
        replica=None,
        source="",
        target="",
        kind=Kind.SCALE_IN,
        state=TransactionState.SUCCEEDED,
        policy="kod2",
        purpose="",
        reason="",
        note="",
        beneficiary="",
        workers_before=3,
        workers_after=2,
        restart=True,
        started_at=0.0,
        ended_at=1.0,
        checkpoint_step=None,
        last_step_before=None,
        first_step_after=None,
        downtime=None,
        steps_lost=None,
    )
    admission = msgspec.structs.replace(change, workers_before=0)
    for changes, moved in (((change,), True), ((admission,), False), ((), False)):
        assert msgspec.structs.replace(run(moves=0, a=1.0), changes=changes).moved_something is moved


def test_a_load_that_drifted_is_said_and_takes_the_word_away():
    """What the load explains is no success: a verdict stays where it holds with and without the drift."""
    first = run(a=80.0, b=20.0, makespan=80.0, load=busy(0.0))
    second = run("round-robin", a=100.0, b=100.0, makespan=100.0, load=busy(60.0))
    comparison = compare(first, second)
    assert comparison.drifted
    assert [each.verdict for each in comparison.jobs] == [Verdict.NO_VERDICT, Verdict.HELPED]
    assert comparison.makespan.percent_normalised == pytest.approx(100 * (80 / 0.7 - 100) / 100)
    assert conclusions(comparison) == [
        "average completion 100.0 s -> 50.0 s (-50.0 %, better), 2 jobs",
        "makespan 100.0 s -> 80.0 s (-20.0 %, no verdict)",
        "jobs: 1 helped, 0 hurt, 0 unchanged (within 2 %), 1 without a verdict",
        (
            "load: others took 30% of 2 CPUs without moves, 0% with them: it drifted; "
            "of the processor time that was left: average completion -28.6 %, makespan +14.3 %"
        ),
    ]


def test_a_load_that_kept_still_is_named_and_changes_no_word():
    """Five points of a hundred are what two runs differ by anyway."""
    first = run(a=80.0, makespan=80.0, load=busy(20.0))
    comparison = compare(first, run("round-robin", a=100.0, makespan=100.0, load=busy(28.0)))
    assert not comparison.drifted
    assert conclusions(comparison)[-3:] == [
        "makespan 100.0 s -> 80.0 s (-20.0 %, better)",
        "jobs: 1 helped, 0 hurt, 0 unchanged (within 2 %)",
        "load: others took 14% of 2 CPUs without moves, 10% with them",
    ]


def test_times_of_a_machine_that_was_half_idle_are_not_normalised():
    """There the load of others cost nobody anything that could be taken out again."""
    idle = busy(60.0, own=20.0)
    comparison = compare(run(a=80.0, makespan=80.0, load=busy(0.0)), run(a=100.0, makespan=100.0, load=idle))
    assert comparison.drifted
    assert comparison.makespan.percent_normalised is None
    assert conclusions(comparison)[1] == "makespan 100.0 s -> 80.0 s (-20.0 %, no verdict)"
    assert conclusions(comparison)[-1].endswith("it drifted, and what differs may come from that")


def test_a_load_that_nobody_knows_is_said_so():
    """Some systems do not count the time of their CPUs."""
    comparison = compare(run(a=80.0, load=busy(None)), run(a=100.0, load=busy(3.0)))
    assert conclusions(comparison)[-1].startswith("load: what others took of the machine is not known")


def test_what_is_not_known_is_said_so():
    """Without a makespan, and without a job in both runs, nothing is computed."""
    comparison = compare(run(a=13.0), run(b=12.3, makespan=5.0))
    assert comparison.not_comparable == 2
    assert conclusions(comparison) == [
        "average completion unknown -> unknown (not comparable), 0 jobs",
        "makespan 5.0 s -> unknown (not comparable)",
        "jobs: 0 helped, 0 hurt, 0 unchanged (within 2 %), 2 not comparable",
    ]


def test_both_runs_stand_side_by_side():
    """Each job has a line with both times, the difference in seconds and per cent, and the verdict."""
    first = run(**{"default/mnist": 90.0, "[red]x": 55.0, "team-a/gan": None})
    second = run("round-robin", **{"default/mnist": 120.0, "[red]x": 50.0, "team-a/gan": 10.0})
    lines = [line.split() for line in printed(compare(first, second)).splitlines()]
    assert lines[0] == ["completion", "times,", "specon", "against", "round-robin"]
    assert ["mnist", "90.0", "120.0", "-30.0", "-25.0", "helped"] in lines
    assert ["[red]x", "55.0", "50.0", "+5.0", "+10.0", "hurt"] in lines
    assert ["team-a/gan", "-", "10.0", "-", "-", "hurt"] in lines


def test_no_jobs_at_all():
    """Two empty runs compare without numbers."""
    comparison = compare(run(), run())
    assert (comparison.jobs, comparison.average_completion.seconds) == ((), None)
    assert "0 helped, 0 hurt, 0 unchanged" in printed(comparison)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.tuples(*[st.one_of(st.none(), st.just(RUNS), st.floats(0.0, 1e6))] * 2),
        max_size=6,
    )
)
def test_every_job_gets_exactly_one_verdict(took):
    """Whatever became of the jobs, the counts add up, the verdicts mirror each other, and it prints."""
    first = run(**{name: pair[0] for name, pair in took.items() if name not in {"policy", "makespan"}})
    second = run(**{name: pair[1] for name, pair in took.items() if name not in {"policy", "makespan"}})
    there, back = compare(first, second), compare(second, first)
    counts = there.helped + there.hurt + there.unchanged + there.no_verdict + there.not_comparable
    assert counts == len(there.jobs) == len(first.jobs)
    assert printed(there)
    for one, other in zip(there.jobs, back.jobs, strict=True):
        assert (one.verdict, other.verdict) != (Verdict.HELPED, Verdict.HELPED)
        assert (one.verdict, other.verdict) != (Verdict.HURT, Verdict.HURT)


def test_json_has_the_runs_and_their_comparison():
    """Two runs are written with their comparison, one alone with none; what is not known is null."""
    first, second = run(a=90.0, b=None), run("round-robin", a=120.0, b=None)
    both = json.loads(to_json([first, second]))
    assert (both["schema"], [each["policy"] for each in both["runs"]]) == (1, ["specon", "round-robin"])
    assert both["runs"][0]["jobs"][1]["completion_seconds"] is None
    assert both["comparison"]["jobs"][0]["verdict"] == "helped"
    assert both["comparison"]["average_completion"]["percent"] == -25.0
    assert json.loads(to_json([first]))["comparison"] is None


def test_json_is_read_back_as_it_was():
    """The file decodes into the same records."""
    runs = [run(a=90.0), run(a=91.0)]
    read = msgspec.json.decode(to_json(runs), type=ResultFile)
    assert read.runs == tuple(runs)
    assert read.comparison == compare(*runs)


def test_the_documented_schema_names_every_field():
    """Each field that is written is named in the description of the format."""
    from specon_manager.cli.run import comparison  # noqa: PLC0415 - its docstring is what is tested

    def fields(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield key
                yield from fields(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from fields(inner)

    both = [run(a=1.0, load=busy(1.0)), run(a=2.0, load=busy(1.0))]
    written = set(fields(json.loads(to_json(both))))
    assert {name for name in written if f"`{name}`" not in (comparison.__doc__ or "")} == set()


def test_a_file_is_replaced_as_a_whole(tmp_path):
    """The new content takes the place of the old one, and nothing else is left in the folder."""
    path = tmp_path / "out.json"
    path.write_text("old")
    write_json(path, [run(a=1.0)])
    assert path.read_bytes() == to_json([run(a=1.0)])
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path, monkeypatch):
    """Where writing fails the old file stays as it was, and no half of a new one lies beside it."""
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, [run(a=1.0)])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_an_error(tmp_path):
    """No folder is made that nobody asked for."""
    with pytest.raises(FileNotFoundError, match="missing"):
        write_json(tmp_path / "missing" / "out.json", [run(a=1.0)])
