"""Kueue preempts: each likely victim has saved before, and nobody waits for longer than that takes.

Kueue is a stub that does with gates what was read in its source; the manager's part is its own code. Time is
virtual.
"""

import asyncio
import itertools
import os

import pytest

from support.clocks.virtual_time import run_virtually
from support.kube.kueue_stage import STEP_SECONDS, KueueStage

PREEMPTIONS = int(os.environ.get("SPECON_PREEMPTIONS", "100"))
QUEUES = 4


def save_seconds(name):
    """Return how long a job takes to save: from one second to four."""
    return 1.0 + int(name.rpartition("-")[2]) % 4


async def preemptions(stage, wanted):
    """Let jobs of high priority come and go until so many trainings were preempted for them."""
    for number in range(QUEUES):
        stage.kueue.add_queue(f"team-{number}", 8)
        for index in range(6):
            gang = index % 3 == 2
            name = f"train-{number * 10 + index}"
            stage.train(name, f"team-{number}", cpu=2.0 if gang else 1.0, workers=2 if gang else 1)
    await asyncio.sleep(5)
    count = 0
    while len(stage.kueue.preempted) < wanted:
        count += 1
        urgent, queue = f"urgent-{count}", f"team-{count % QUEUES}"
        stage.kueue.submit(urgent, queue, cpu=1.0 + count % 3, priority=100, gated=True)
        await asyncio.sleep(4)
        if count > QUEUES:
            stage.kueue.finish(f"urgent-{count - QUEUES}")
        await asyncio.sleep(2)
        assert count < 20 * wanted, "nothing is preempted"


def in_order(stage):
    """Return preemptions: victim, preemptor, when that was blocked, when the victim ended, its trainer."""
    assert [victim for victim, *_ in stage.kueue.preempted] == [name for name, *_ in stage.ends]
    return [
        (victim, preemptor, since, at, trainer)
        for (victim, preemptor, since), (_, at, trainer) in zip(
            stage.kueue.preempted, stage.ends, strict=True
        )
    ]


@pytest.fixture(scope="module")
def busy():
    """Return a stage on which a hundred preemptions were, gangs among the victims."""
    stage = KueueStage(save_seconds=save_seconds)
    stage.kueue.stale_writes = 20
    run_virtually(stage.run(preemptions(stage, PREEMPTIONS)))
    return stage


def test_every_victim_is_verified_before_it_ends(busy):
    """Since Kueue was about to preempt it, not at some time before."""
    assert len(busy.kueue.preempted) >= PREEMPTIONS
    for _, preemptor, since, at, trainer in in_order(busy):
        assert trainer.saved is not None, preemptor
        assert since <= trainer.saved_at <= at


def test_what_pauses_after_it_has_saved_loses_no_step(busy):
    """The first job that has saved waits for the slowest."""
    assert len(busy.lost) >= PREEMPTIONS
    assert sum(busy.lost) == 0


def test_the_delay_is_the_slowest_save_and_three_seconds_at_most(busy):
    """Though the scheduler shut some gates again, as it may with an older copy of a Workload."""
    assert len(busy.kueue.shut) == busy.kueue.stale_writes
    for victim, preemptor, since, at, _ in in_order(busy):
        slowest = max(map(save_seconds, busy.asked[preemptor]))
        assert at - since <= slowest + 3.0, preemptor
        assert victim in busy.asked[preemptor]


def test_a_look_that_takes_long_keeps_nobody_waiting_beyond_that():
    """With thousands of Workloads, or on a busy machine: it rests for a second at most."""
    stage, seconds = KueueStage(save_seconds=save_seconds), itertools.count(step=5.0)
    stage.worked = lambda: next(seconds)
    run_virtually(stage.run(preemptions(stage, 10)))
    for _, preemptor, since, at, _ in in_order(stage):
        assert at - since <= max(map(save_seconds, stage.asked[preemptor])) + 3.0, preemptor


def test_what_does_not_pause_loses_what_it_trains_until_the_slowest_has_saved():
    """Seconds, not hours."""
    stage = KueueStage(hold=False, save_seconds=save_seconds)
    run_virtually(stage.run(preemptions(stage, 10)))
    assert sum(stage.lost) > 0
    assert max(stage.lost) <= (4.0 + 3.0) / STEP_SECONDS


async def one(stage, seconds=20.0, **about):
    """Let one urgent job come to a queue that one training fills, and wait."""
    stage.kueue.add_queue("team", 1)
    stage.train("train-0", "team", **about)
    await asyncio.sleep(5)
    stage.kueue.submit("urgent", "team", cpu=1.0, priority=100, gated=True)
    await asyncio.sleep(seconds)


def delay(stage):
    ((_, _, since, at, _),) = in_order(stage)
    return at - since


def test_the_gate_opens_after_the_patience_whoever_has_not_saved():
    """A trainer that hangs must not keep anybody waiting for ever."""
    stage = KueueStage(patience=10.0, save_seconds=lambda _: 1000.0)
    run_virtually(stage.run(one(stage)))
    assert 10.0 <= delay(stage) <= 12.0
    ((reason, text),) = stage.notes.told
    assert reason == "PreemptionGateOpened"
    assert "after 10 s: 0 of 1 likely victim saved" in text


@pytest.mark.parametrize(
    ("checkpointing", "why"),
    [("none", "writes no checkpoints"), ("on-termination", "saves when it is told to end")],
)
def test_nobody_waits_for_who_cannot_save(checkpointing, why):
    """The gate opens at once, and says why."""
    stage = KueueStage()
    run_virtually(stage.run(one(stage, checkpointing=checkpointing)))
    assert delay(stage) <= 2.0
    assert why in stage.notes.told[0][1]


def test_nobody_waits_for_jobs_that_are_not_ours():
    """There is nobody to ask."""
    stage = KueueStage()

    async def story():
        stage.kueue.add_queue("team", 1)
        stage.kueue.submit("foreign", "team", cpu=1.0, priority=0, gated=True)
        await asyncio.sleep(5)
        stage.kueue.submit("urgent", "team", cpu=1.0, priority=100, gated=True)
        await asyncio.sleep(5)

    run_virtually(stage.run(story()))
    assert [victim for victim, *_ in stage.kueue.preempted] == ["foreign"]
    assert "no likely victim is a job of ours" in stage.notes.told[0][1]


def test_what_fits_is_never_kept_waiting():
    """Kueue asks for an open gate only where it would preempt."""
    stage = KueueStage()

    async def story():
        stage.kueue.add_queue("team", 2)
        stage.train("train-0", "team")
        await asyncio.sleep(1)
        stage.kueue.submit("urgent", "team", cpu=1.0, priority=100, gated=True)
        await asyncio.sleep(1)
        assert stage.kueue.pending("team") == []

    run_virtually(stage.run(story()))
    assert (stage.kueue.preempted, stage.api.patches) == ([], [])


def test_a_kueue_without_the_feature_gate_preempts_as_ever():
    """It passes gates over: nothing is worse than without them."""
    stage = KueueStage(heeds_gates=False)
    run_virtually(stage.run(one(stage)))
    assert delay(stage) <= 1.0


def test_who_does_not_lead_turns_no_gate():
    """The next leader continues from the objects: the patience is over by then."""
    stage = KueueStage(patience=15.0)
    stage.leads = False

    async def story():
        await one(stage, seconds=20)
        assert stage.kueue.preempted == []
        stage.leads = True
        await asyncio.sleep(3)

    run_virtually(stage.run(story()))
    assert len(stage.kueue.preempted) == 1


@pytest.mark.parametrize("after", [1.0, 2.0, 3.0])
def test_who_takes_over_waits_for_the_same_checkpoint_or_asks_once_more(after):
    """Before it is asked for, while it is written, and right after that: the victim has saved."""
    stage = KueueStage(save_seconds=lambda _: 2.0)

    async def story():
        await one(stage, seconds=after)
        stage.take_over()
        await asyncio.sleep(15)

    run_virtually(stage.run(story()))
    ((_, _, since, at, trainer),) = in_order(stage)
    assert since <= trainer.saved_at <= at
    assert at - since <= 2 * 2.0 + 3.0
    assert stage.lost == [0]


@pytest.mark.parametrize("rest", [3.0, 30.0])
def test_each_round_asks_anew(rest):
    """What was preempted once and trains again is asked again, however soon it is preempted again."""
    stage = KueueStage()

    async def story():
        await one(stage, seconds=5)
        stage.kueue.finish("urgent")
        await asyncio.sleep(rest)
        stage.kueue.submit("again", "team", cpu=1.0, priority=100, gated=True)
        await asyncio.sleep(10)

    run_virtually(stage.run(story()))
    assert [preemptor for _, preemptor, _ in stage.kueue.preempted] == ["urgent", "again"]
    assert stage.lost == [0, 0]
    assert stage.reached["train-0"] > rest / STEP_SECONDS
