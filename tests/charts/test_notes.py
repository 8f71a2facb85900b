"""What helm says after an installation can be followed as it stands."""

import argparse
import re

import kubernetes_validate

from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.serving.serve_settings import add_arguments
from support.packaging.chart_notes import trial_pod
from support.packaging.helm import CHART, NAMESPACE, RELEASE, helm, of_kind, render, the

LOOPBACK = re.compile(r"127\.0\.0\.1:(\d+)")


def parsed_defaults():
    """Return the flags of `specon serve` as they are when nobody gives any."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args([])


def notes(values=None):
    """Return what helm 4 tells; helm 3 asks a server even for a dry run."""
    arguments = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client")
    answer = helm(*arguments, values=values or {}, major=4)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.partition("\nNOTES:\n")[2]


def test_the_pod_to_try_is_what_server_and_webhook_take():
    """Its fields are known, its annotations are read without a mistake, and it is as restricted as can be."""
    pod = trial_pod(notes())
    kubernetes_validate.validate(pod, "1.30", strict=True)
    options = read_options(pod["metadata"]["annotations"])
    (container,) = pod["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert options.log_path is not None
    assert options.log_path.startswith(f"{mount['mountPath']}/")
    assert options.log_path in container["args"][0]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_pod_to_try_is_where_pods_are_managed():
    """In the first of the namespaces, where they are named."""
    assert trial_pod(notes())["metadata"]["namespace"] == "default"
    told = notes({"watchNamespaces": ["team-a", "team-b"]})
    assert trial_pod(told)["metadata"]["namespace"] == "team-a"
    assert "team-a, team-b" in told


def test_what_is_named_is_what_is_installed():
    """Deployment, labels, and the objects that stay."""
    objects = render()
    told = notes()
    deployment = the(objects, "Deployment")
    assert f"deployment/{deployment['metadata']['name']}\n" in told
    (selector,) = re.findall(r"--selector (\S+?)\)", told)
    (reports,) = [one for one in of_kind(objects, "Service") if one["metadata"]["name"].endswith("-reports")]
    selected = {f"{key}={value}" for key, value in reports["spec"]["selector"].items()}
    assert set(selector.rstrip('"').split(",")) <= selected
    flags = dict(
        one.removeprefix("--").split("=", 1)
        for one in deployment["spec"]["template"]["spec"]["containers"][0]["args"][1:]
    )
    port = LOOPBACK.fullmatch(parsed_defaults().page_listen)
    assert port is not None
    assert f"http://127.0.0.1:{port[1]}/page/" in told
    assert f"the Lease {flags['lease-name']}, the Secret {flags['certificate-secret']}." in told


def test_no_secret_is_said_to_stay_where_none_is_made():
    """With certificates of somebody else."""
    certificates = {"mode": "provided", "secretName": "tls", "caBundle": "PEM"}
    assert "Secret" not in notes({"webhook": {"certificates": certificates}})
