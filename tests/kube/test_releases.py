"""Two releases of the manager on one cluster: whole managers, each with a Lease of its own."""

import pytest

from fakekube.kinds import MUTATING_WEBHOOKS, NAMESPACES
from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from specon_manager.backends.kube.transport.rivals import KEPT_BY
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


async def _install_outside(stage, name):
    """Make the configuration by which a manager outside the cluster is asked, and the place of its Lease."""
    about = WebhookSettings(name=name, namespace=name, service="none", url="https://10.0.0.1:8443")
    await stage.cluster.machinery.create(MUTATING_WEBHOOKS, "", webhook_configuration(about, None))
    await stage.cluster.machinery.create(NAMESPACES, "", {"metadata": {"name": name}})


@pytest.mark.parametrize("configurations", [("first", "second"), ("first", "first")], ids=["two", "one"])
async def test_of_two_managers_outside_the_cluster_the_second_stands_by(stage, caplog, configurations):
    """No Service tells of either of them, but the mark on the configuration that it keeps."""
    for name in ("first", "second"):
        await _install_outside(stage, name)
    first = await stage.manage("first", home="first", configuration=configurations[0])
    await stage.until(first.has_taken_over, "the first leads")

    def marked():
        kept = stage.cluster.store.get(MUTATING_WEBHOOKS, ("", "first"))
        return kept["metadata"].get("annotations", {}).get(KEPT_BY) == "first/manager"

    await stage.until(marked, "its configuration is marked")
    second = await stage.manage("second", home="second", configuration=configurations[1])
    await stage.until(lambda: second.serves._rivals.present is not None, "the second sees the first")
    assert not second.leads
    said = "standing by for another release of specon: first_manager leads by the Lease first/manager"
    assert said in caplog.text
    assert ("it keeps our webhook configuration first" in caplog.text) is (configurations[1] == "first")
    await first.stop()
    stage.managers.remove(first)
    await stage.until(second.has_taken_over, "the second leads")
    await stage.until(
        lambda: (
            stage.cluster.store.get(MUTATING_WEBHOOKS, ("", configurations[1]))["metadata"]["annotations"]
            == {KEPT_BY: "second/manager"}
        ),
        "the configuration is the second one's",
    )


async def test_releases_over_different_namespaces_know_nothing_of_each_other(stage):
    """Both lead, each with a webhook configuration of its own."""
    await _install_outside(stage, "of-second")
    first = await stage.manage("first", namespaces=("training",))
    second = await stage.manage("second", lease="other", namespaces=("elsewhere",), configuration="of-second")
    for one in (first, second):
        await stage.until(one.has_taken_over, "both lead")
