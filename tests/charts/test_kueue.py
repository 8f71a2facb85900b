"""What the chart installs for Kueue's preemption gates: nothing, unless it is switched on."""

import argparse

import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings
from specon_manager.backends.kube.kueue.webhook import gate_webhook
from specon_manager.serving.serve_settings import add_arguments, read_serve_settings
from support.kube.permissions import permitted
from support.packaging.helm import NAMESPACE, RELEASE, of_kind, refusal, render, the

ON = {"kueue": {"preemptionGate": {"enabled": True, "patience": 90, "clusterQueues": ["team-a"]}}}

MOVES = {"kueue": {"moves": {"enabled": True, "clusterQueues": ["team-a"]}}}


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
    gate = settings_of(render(ON), tmp_path).preemption_gate
    assert (gate.enabled, gate.patience, gate.cluster_queues) == (True, 90.0, ("team-a",))


def test_moves_take_the_rights_to_read_and_to_deactivate_workloads():
    """And no webhook more; their namespaces' Roles have what is written, where specon is limited to some."""
    more = permitted(render(MOVES), {}) - permitted(render(), {})
    read = {
        (each, verb, "")
        for each in ("workloads", "clusterqueues", "localqueues")
        for verb in ("list", "watch")
    }
    assert {(one.resource, one.verb, one.namespace) for one in more} == {
        *read,
        ("workloads", "get", ""),
        ("workloads", "patch", ""),
    }
    name = f"{NAMESPACE}-{RELEASE}"
    without, moving = (the(render(values), "MutatingWebhookConfiguration", name) for values in (None, MOVES))
    assert without == moving
    limited = {"watchNamespaces": ["team-a"]}
    more = permitted(render(MOVES | limited), {}) - permitted(render(limited), {})
    assert {one.namespace for one in more if one.verb == "patch"} == {"team-a"}


def test_the_manager_is_told_whose_jobs_it_moves(tmp_path):
    """Only those of the named ClusterQueues, which therefore must be some."""
    moves = settings_of(render(MOVES), tmp_path).kueue_moves
    assert (moves.enabled, moves.cluster_queues) == (True, ("team-a",))
    assert not settings_of(render(), tmp_path).kueue_moves.enabled
    assert "kueue.moves.clusterQueues" in refusal({"kueue": {"moves": {"enabled": True}}})
    assert "clusterQueues" in refusal({"kueue": {"moves": {"clusterQueues": "team-a"}}})


def settings_of(objects, folder):
    """Return the settings that a manager reads from its ConfigMap."""
    (config,) = [each for each in of_kind(objects, "ConfigMap") if "config.yaml" in each["data"]]
    path = folder / "config.yaml"
    path.write_text(config["data"]["config.yaml"])
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_serve_settings(parser.parse_args(["--config", str(path)]))


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
