"""What the chart installs for Kueue's preemption gates: nothing, unless it is switched on."""

import argparse

import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.kueue.webhook import gate_webhook
from specon_manager.serving.serve_settings import add_arguments, read_serve_settings
from support.kube.permissions import permitted
from support.packaging.helm import NAMESPACE, RELEASE, of_kind, refusal, render, the

ON = {"kueue": {"preemptionGate": {"enabled": True, "patience": 90, "clusterQueues": ["team-a"]}}}


def test_workloads_are_nobodys_business_unless_they_are_to_wait():
    """One webhook that ignores our absence, and the rights that it takes: it writes one field of a status."""
    settings = WebhookSettings(
        name=f"{NAMESPACE}-{RELEASE}", namespace=NAMESPACE, service=f"{RELEASE}-webhook"
    )
    before, after = (
        the(render(values), "MutatingWebhookConfiguration", settings.name)["webhooks"]
        for values in (None, ON)
    )
    assert after == [*before, gate_webhook(settings, None)]
    more = permitted(render(ON), {}) - permitted(render(), {})
    assert {(one.resource, one.verb) for one in more} == {
        *(
            (each, verb)
            for each in ("workloads", "clusterqueues", "localqueues")
            for verb in ("list", "watch")
        ),
        ("workloads/status", "patch"),
    }


def test_the_manager_is_told_what_the_values_say(tmp_path):
    """The chart's names are those of Kubernetes, the manager's those of its own file."""
    (config,) = [each for each in of_kind(render(ON), "ConfigMap") if "config.yaml" in each["data"]]
    path = tmp_path / "config.yaml"
    path.write_text(config["data"]["config.yaml"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    gate = read_serve_settings(parser.parse_args(["--config", str(path)])).preemption_gate
    assert (gate.enabled, gate.patience, gate.cluster_queues) == (True, 90.0, ("team-a",))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"patience": -1}, "patience"),
        ({"enabled": "yes"}, "enabled"),
        ({"clusterQueues": "team-a"}, "clusterQueues"),
        ({"clusterQueue": ["team-a"]}, "clusterQueue"),
    ],
)
def test_wrong_values_are_refused_by_name(given, named):
    """Before anything is installed."""
    assert named in refusal({"kueue": {"preemptionGate": given}})
