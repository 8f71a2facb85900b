"""Two releases of the manager on one cluster: whole managers, each with a Lease of its own."""

import pytest

from support.kube.cluster_stage import ClusterStage


@pytest.fixture
async def stage(tmp_path):
    async with ClusterStage(tmp_path) as made:
        yield made


async def test_the_second_release_stands_by_until_the_first_is_gone(stage, caplog):
    """It says for whom, leaves pods alone, and neither of the two ends."""
    first = await stage.manage_and_lead()
    second = await stage.manage("second", lease="other")
    await stage.until(lambda: second.serves._rivals.present is not None, "the second sees the first")
    heard = await stage.make("Job", "heard")
    await stage.trains(heard)
    assert first.leads
    assert not second.leads
    assert not second.task.done()
    assert (
        "standing by for another release of specon: first_manager leads by the Lease specon/manager"
        in caplog.text
    )
    assert second.serves._injection() is None
    await first.stop()
    stage.managers.remove(first)
    await stage.until(second.has_taken_over, "the second leads")
    await stage.trains(heard)
    assert second.serves._injection() is not None


async def test_of_two_that_begin_at_once_one_leads_and_neither_ends(stage):
    """However often they depose each other first."""
    managers = [await stage.manage(f"m{index}", lease=f"lease-{index}") for index in range(2)]

    def settled():
        present = [one.serves._rivals.present for one in managers]
        return [one.has_taken_over() for one in managers].count(True) == 1 and any(present)

    await stage.until(settled, "one leads, and the other knows")
    assert not any(one.task.done() for one in managers)


async def test_releases_over_different_namespaces_know_nothing_of_each_other(stage):
    """Both lead."""
    first = await stage.manage("first", namespaces=("training",))
    second = await stage.manage("second", lease="other", namespaces=("elsewhere",))
    for one in (first, second):
        await stage.until(one.has_taken_over, "both lead")
