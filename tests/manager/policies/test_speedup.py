"""Elastic jobs grow beyond what their owners asked for only where measured paces say that it pays."""

import msgspec
import pytest

from specon_manager.core.step import step
from specon_manager.model import events as ev
from specon_manager.model.progress import Progress
from specon_manager.policies.progress import ProgressSettings, propose
from specon_manager.policies.speedup import has_no_speedup, largest_worthwhile
from specon_sidecar.classify import Category
from specon_sidecar.wire import Observation, Report
from support.decisions.expected import left
from support.decisions.gang_worlds import NOW, Layout, nodes_of, said, spec_of

LINEAR = {workers: 1.0 / workers for workers in range(1, 9)}


@pytest.mark.parametrize(
    ("paces", "worth"),
    [
        ({}, 4),  # nothing measured: twice as many as were asked for are tried
        ({2: 0.5}, 4),
        ({2: 0.5, 4: 0.25}, 8),
        (LINEAR, 16),
        ({**LINEAR, 4: 1 / 3.5}, 3),  # 7/8 of linear is too little
        ({2: 0.5, 8: 0.4}, 4),  # eight are too many, four were not tried
        ({2: 0.5, 3: 0.5}, 2),
        ({4: 0.25}, 2),  # of the size that was asked for nothing is known: no more than that
    ],
)
def test_growth_ends_where_the_next_worker_does_not_bring_nine_tenths(paces, worth):
    """The owner asked for two."""
    assert largest_worthwhile(paces, 2) == worth


def test_what_brought_nothing_is_known_by_the_pace_with_what_was_asked_for():
    """Never of the workers that were asked for themselves."""
    assert has_no_speedup({2: 0.5, 3: 0.5}, 2, 3)
    assert not has_no_speedup({2: 0.5, 3: 0.4}, 2, 3)
    assert not has_no_speedup({1: 0.5, 2: 0.6}, 2, 2)


def grown(paces: dict[int, float], places: str = "0 0") -> list[tuple[object, ...]]:
    layout = Layout(nodes_of(2)).add(spec_of("j", 2, most=8, kind="vae"), places)
    layout.state = msgspec.structs.replace(layout.state, paces={"vae": paces})
    return said(propose(left(layout, "j", 5000.0).snapshot, ProgressSettings()))


def test_a_job_grows_as_far_as_its_kind_was_measured_to_gain():
    """To four of eight where nothing else is known, and no further than what was found to be worth it."""
    assert grown({}) == [("ScaleOut", "j", "worker/2@0 worker/3@0")]
    assert grown({2: 0.5, 3: 0.34, 4: 0.4}) == [("ScaleOut", "j", "worker/2@0")]
    assert grown({2: 0.5, 3: 0.45}) == []


def test_workers_that_brought_nothing_are_given_back():
    """It was tried, and is remembered by the paces."""
    assert grown({2: 0.5, 3: 0.5}, "0 0 0") == [("ScaleIn", "j", "worker/2")]


def report(sequence: int, at_step: int, replica: str = "default/j/worker/0") -> Report:
    return Report(
        schema=1,
        replica=replica,
        incarnation="1",
        session="s",
        sequence=sequence,
        category=Category.PROGRESSING,
        last=Observation(name="loss", value=1.0, age=0.0, step=at_step),
    )


def test_the_pace_of_an_elastic_job_is_learnt_from_its_first_worker_by_its_size():
    """Not across a change of its size, for then a pause lies between the steps."""
    layout = Layout(nodes_of(1)).add(spec_of("j", 2, most=3, kind="vae"), "0 0", trains_since=NOW + 5)
    layout.change("j/worker/0", progress=Progress(step=10, step_at=NOW))
    state, _ = step(layout.state, ev.ReportReceived(report=report(1, 20)), NOW + 10)
    assert state.paces == {}
    state, _ = step(state, ev.ReportReceived(report=report(2, 30)), NOW + 15)
    assert state.paces == {"vae": {2: 0.5}}
    state, _ = step(state, ev.ReportReceived(report=report(3, 40)), NOW + 25)
    assert state.paces["vae"][2] == pytest.approx(0.6)
    other = report(1, 50, "default/j/worker/1")
    assert step(state, ev.ReportReceived(report=other), NOW + 30)[0].paces == state.paces


def test_a_job_of_no_kind_teaches_nobody_else():
    """What a step is differs from job to job."""
    layout = Layout(nodes_of(1)).add(spec_of("j", 2, most=3), "0 0", trains_since=NOW - 5)
    layout.change("j/worker/0", progress=Progress(step=10, step_at=NOW))
    state, _ = step(layout.state, ev.ReportReceived(report=report(1, 20)), NOW + 10)
    assert state.paces == {"default/j\n": {2: 1.0}}
