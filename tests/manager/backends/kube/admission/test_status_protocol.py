"""The variables of Kubeflow Trainer's status protocol: set where nobody else has set them."""

import copy

import kubernetes_validate
import pytest

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.objects.annotation_reader import read_options
from support.kube.pods import job_pod, pod, trainer

SETTINGS = InjectionSettings(
    image="specon/sidecar:1", manager="https://reports", ca_bundle="PEM", status_port=28411
)
URL, TOKEN, CA = (f"KUBEFLOW_TRAINER_SERVER_{name}" for name in ("URL", "TOKEN", "CA_CERT"))


def injected(manifest, settings=SETTINGS):
    return inject(manifest, "ml", read_options(manifest["metadata"]["annotations"]), settings, {}).pod


def variables(done):
    return {one["name"]: one.get("value") for one in done["spec"]["containers"][0]["env"]}


def ports(done):
    (sidecar,) = done["spec"]["initContainers"]
    return [one for one in sidecar["args"] if one.startswith("--status-port")]


def test_a_trainer_of_any_kind_reports_to_its_sidecar():
    """By loopback, with the pod's UID as the token, and with a certificate that can be read."""
    given = job_pod("resnet", 2)
    done = injected(given)
    assert variables(done) == {
        "SPECON_TRAINER": "1",
        URL: (
            "http://127.0.0.1:28411/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/resnet/status"
        ),
        TOKEN: "/run/specon-status/token",
        CA: "/run/specon-status/ca.crt",
    }
    assert ports(done) == ["--status-port=28411"]
    (volume,) = (one for one in done["spec"]["volumes"] if one["name"] == "specon-status")
    fields = {one["path"]: one["fieldRef"]["fieldPath"] for one in volume["downwardAPI"]["items"]}
    assert fields == {"token": "metadata.uid", "ca.crt": "metadata.annotations['specon.io/ca']"}
    mount = {"name": "specon-status", "mountPath": "/run/specon-status", "readOnly": True}
    assert mount in done["spec"]["containers"][0]["volumeMounts"]
    kubernetes_validate.validate(done, "1.30", strict=True)
    assert injected(copy.deepcopy(done)) == done


@pytest.mark.parametrize("name", [URL, TOKEN, CA])
def test_what_trainer_has_set_stays(name):
    """Any of the three."""
    theirs = [{"name": name, "value": "theirs"}]
    done = injected(pod(spec={"containers": [trainer(env=theirs)]}))
    assert variables(done) == {name: "theirs", "SPECON_TRAINER": "1"}
    assert not ports(done)


def test_on_the_host_s_network_loopback_is_the_node_s():
    """Others listen there, and others would report."""
    done = injected(pod(spec={"hostNetwork": True}))
    assert variables(done) == {"SPECON_TRAINER": "1"}
    assert not ports(done)


def test_it_can_be_switched_off():
    """By the owner of the cluster."""
    off = InjectionSettings(image="i", manager="https://reports")
    assert variables(injected(pod(), off)) == {"SPECON_TRAINER": "1"}
