"""Queues with quotas: first come, first served within a share, whole gangs only."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specon_manager.model.cluster import Phase
from specon_manager.model.resources import NOTHING, Resources
from specon_manager.policies.quota_fifo import QuotaFifoSettings, propose
from support.decisions.gang_worlds import InstantWorld, Layout, layouts, nodes_of, said, spec_of

DEFAULT = QuotaFifoSettings()
HALVES = QuotaFifoSettings(shares={"a": 0.5, "b": 0.5}, borrow=False)
BORROWING = QuotaFifoSettings(shares={"a": 0.5, "b": 0.5})
STRICT = QuotaFifoSettings(strategy="strict")


def admitted(layout, settings=DEFAULT):
    return [subject for kind, subject, _ in said(propose(layout.snapshot, settings)) if kind == "AdmitGang"]


def test_a_gang_is_admitted_as_a_whole_or_not_at_all():
    """Three workers on two places: none of them starts."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 2), "0 0").add(spec_of("y", 3)).add(spec_of("z", 2))
    assert said(propose(layout.snapshot, DEFAULT)) == [("AdmitGang", "z", "worker/0@0 worker/1@0")]


@pytest.mark.parametrize(("settings", "names"), [(DEFAULT, ["z"]), (STRICT, [])])
def test_strict_queues_wait_for_their_head(settings, names):
    """BestEffortFIFO passes a job that cannot be admitted over, StrictFIFO does not."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 2), "0 0").add(spec_of("y", 3)).add(spec_of("z", 2))
    assert admitted(layout, settings) == names


def test_the_head_of_a_strict_queue_does_not_hold_back_other_queues():
    """Each queue has its own order."""
    settings = msgspec.structs.replace(BORROWING, strategy="strict")
    layout = Layout(nodes_of(1)).add(spec_of("x", 5, queue="a")).add(spec_of("y", 1, queue="a"))
    layout.add(spec_of("z", 2, queue="b"))
    assert admitted(layout, settings) == ["z"]


def test_without_borrowing_a_queue_stays_within_its_share():
    """Half of four places is two, though the others are idle."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 1, queue="a"), "0").add(spec_of("y", 2, queue="a"))
    layout.add(spec_of("z", 1, queue="a"))
    assert admitted(layout, HALVES) == ["z"]
    assert admitted(layout, BORROWING) == ["y", "z"]


def test_who_borrows_goes_after_who_does_not():
    """A younger job within its quota comes before an older one that needs another queue's."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 3, queue="a")).add(spec_of("y", 2, queue="b"))
    assert admitted(layout, BORROWING) == ["y"]
    layout = Layout(nodes_of(1)).add(spec_of("x", 2, queue="a")).add(spec_of("y", 2, queue="b"))
    assert admitted(layout, BORROWING) == ["x", "y"]


def test_queues_without_a_share_share_what_is_left():
    """Jobs of queues that are not named count together against the rest of the cluster."""
    settings = QuotaFifoSettings(shares={"a": 0.75}, borrow=False)
    layout = Layout(nodes_of(1)).add(spec_of("x", 1, queue="other")).add(spec_of("y", 1))
    assert admitted(layout, settings) == ["x"]


def test_more_than_the_cluster_cannot_be_shared_out():
    """The error names the field and the sum; three thirds are no more than the whole."""
    with pytest.raises(ValueError, match=r"shares: 1\.2 in all"):
        msgspec.convert({"shares": {"a": 0.6, "b": 0.6}}, QuotaFifoSettings)
    thirds = QuotaFifoSettings(shares=dict.fromkeys("abc", 1 / 3), borrow=False)
    layout = Layout(nodes_of(1, gpu=3.0))
    for name in "abc":
        layout.add(spec_of(name, 1, queue=name))
    assert admitted(layout, thirds) == ["a", "b", "c"]


def test_partial_admission_takes_as_many_workers_as_it_gets():
    """Only where it is switched on, and only elastic jobs."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 1), "0").add(spec_of("y", 4, min_workers=2))
    assert admitted(layout) == []
    partial = QuotaFifoSettings(partial=True)
    assert said(propose(layout.snapshot, partial)) == [("AdmitGang", "y", "worker/0@0 worker/1@0 worker/2@0")]
    rigid = Layout(nodes_of(1)).add(spec_of("x", 1), "0").add(spec_of("y", 4))
    assert admitted(rigid, partial) == []


def test_what_crashed_keeps_its_quota():
    """Its room and its share wait for it while it pauses; when that is over it starts first."""
    layout = Layout(nodes_of(1)).add(spec_of("x", 2, queue="a"), "0 0").add(spec_of("y", 1, queue="a"))
    layout.change("x/worker/1", phase=Phase.PENDING, not_before=2000.0)
    assert admitted(layout, HALVES) == []
    layout.change("x/worker/1", not_before=0.0)
    assert said(propose(layout.snapshot, HALVES)) == [("Admit", "x/worker/1", "0")]


def test_jobs_that_request_nothing_go_where_the_fewest_are():
    """No quota holds them, and no node is full for them."""
    layout = Layout(nodes_of(2, cpu=8.0))
    for name in "abc":
        layout.add(spec_of(name, 1, requests=NOTHING))
    assert [where for *_, where in said(propose(layout.snapshot, DEFAULT))] == [
        "worker/0@0",
        "worker/0@1",
        "worker/0@0",
    ]


def test_every_resource_counts():
    """A queue that has used up its processors gets no more GPUs."""
    layout = Layout(nodes_of(1, gpu=4.0, cpu=8.0))
    layout.add(spec_of("x", 1, queue="a", requests=Resources(gpu=1.0, cpu=4.0)), "0")
    layout.add(spec_of("y", 1, queue="a", requests=Resources(gpu=1.0, cpu=1.0)))
    assert admitted(layout, HALVES) == []


some_settings = st.builds(
    QuotaFifoSettings,
    shares=st.sampled_from([{}, {"a": 0.5}, {"a": 0.25, "b": 0.5}]),
    borrow=st.booleans(),
    strategy=st.sampled_from(["best-effort", "strict"]),
    partial=st.booleans(),
)


@given(layout=layouts(), settings=some_settings)
def test_every_proposal_is_possible(layout, settings):
    """Whole gangs with room, none twice, the same snapshot gives the same proposals with their reasons."""
    proposals = list(propose(layout.snapshot, settings))
    assert proposals == list(propose(layout.snapshot, settings))
    assert all(proposal.reason for proposal in proposals)
    assert layout.refused(proposals) == []
    assert len({subject for _, subject, _ in said(proposals)}) == len(proposals)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=8), strict=st.booleans())
def test_every_job_that_fits_completes(sizes, strict):
    """No job that is not larger than its quota allows waits for ever."""
    settings = QuotaFifoSettings(strategy="strict" if strict else "best-effort")
    world = InstantWorld(nodes_of(1), lambda snapshot: propose(snapshot, settings))
    for number, size in enumerate(sizes):
        world.submit(spec_of(f"job-{number}", size), 2.0, 0.0)
    for now in range(2 * len(sizes) + 1):
        world.tick(float(now))
    assert len(world.ended) == len(sizes)
    assert world.refused == []
