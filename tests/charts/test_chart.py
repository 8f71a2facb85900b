"""What the chart installs, as helm renders it; a cluster is not needed."""

import argparse
import base64
import json

import msgspec
import pytest
import yaml

from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from specon_manager.backends.kube.interception.webhook import eviction_webhook
from specon_manager.cli.run import observe, serve
from specon_manager.model.settings import Settings
from specon_manager.serving.serve_settings import CLUSTER_DEFAULTS, add_arguments, read_serve_settings
from support.kube.permissions import permitted
from support.packaging.helm import CHART, NAMESPACE, RELEASE, helm, of_kind, refusal, render, the

RELEASES = {
    "defaults": {},
    "cert-manager": {"webhook": {"certificates": {"mode": "cert-manager"}}},
    "provided": {"webhook": {"certificates": {"mode": "provided", "secretName": "tls", "caBundle": "PEM"}}},
    "namespaces": {"watchNamespaces": ["team-a", "team-b"]},
    "named": {"fullnameOverride": "other", "replicas": 1, "settings": {"signals": ["priority-boost"]}},
}


@pytest.fixture(params=RELEASES)
def objects(request):
    return render(RELEASES[request.param])


@pytest.fixture
def pod(objects):
    return the(objects, "Deployment")["spec"]["template"]


def flags_of(pod):
    (container,) = pod["spec"]["containers"]
    assert container["args"][0] == "serve"
    return dict(flag.removeprefix("--").split("=", 1) for flag in container["args"][1:])


def test_helm_finds_nothing_to_complain_of():
    """Strictly."""
    answer = helm("lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_rendering_is_repeatable():
    """Nothing is generated or looked up, so that a cluster can be kept as a repository says."""
    assert render() == render({})


def test_selectors_meet_the_pods(objects, pod):
    """Everything that selects pods of ours selects these; reports go to the leader only."""
    labels = pod["metadata"]["labels"].items()
    deployment = the(objects, "Deployment")
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels
    webhook, reports = of_kind(objects, "Service")
    assert webhook["spec"]["selector"].items() <= labels
    leader = dict(reports["spec"]["selector"])
    assert leader.pop("specon.io/leader") == "true"
    assert leader == webhook["spec"]["selector"]
    assert "specon.io/leader" not in pod["metadata"]["labels"]


def test_ports_that_are_named_are_there(objects, pod):
    """Of services and probes; each listener of the manager is among them, and no two have the same port."""
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    reached = {
        service["metadata"]["name"].rpartition("-")[2]: [
            (port["port"], ports[port["targetPort"]]) for port in service["spec"]["ports"]
        ]
        for service in of_kind(objects, "Service")
    }
    assert reached == {"webhook": [(443, 8443)], "reports": [(443, 9443)]}
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"]["path"] == path
        assert ports[container[probe]["httpGet"]["port"]] == 8080
    flags = flags_of(pod)
    listeners = ("listen", "reports-listen", "metrics-listen")
    assert [flags[name] for name in listeners] == ["0.0.0.0:8443", "0.0.0.0:9443", "0.0.0.0:8080"]
    assert sorted(ports.values()) == [8080, 8443, 9443]


def test_a_pod_that_is_told_to_end_goes_on_for_as_long_as_it_is_asked(pod):
    """Evictions that reach nobody pass; and what follows has its own time within the grace period."""
    (container,) = pod["spec"]["containers"]
    goes_on = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 5 <= goes_on <= pod["spec"]["terminationGracePeriodSeconds"] - serve._END_SECONDS - 5


def test_pods_are_as_restricted_as_they_can_be(pod):
    """The pod security standard `restricted`, a read-only root file system, and time to end gracefully."""
    context = pod["spec"]["securityContext"]
    assert context["runAsNonRoot"]
    assert context["runAsUser"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]) == {"requests", "limits"}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert not any("hostPath" in volume for volume in pod["spec"]["volumes"])


def test_names_agree(objects, pod):
    """What the manager is told by flag is what the chart makes, and what the roles permit."""
    flags = flags_of(pod)
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    assert ("Service", flags["webhook-service"]) in names
    assert ("Service", flags["reports-service"]) in names
    assert ("MutatingWebhookConfiguration", flags["webhook-configuration"]) in names
    assert ("PriorityClass", flags["placeholder-priority-class"]) in names
    assert ("PriorityClass", flags["guard-priority-class"]) in names
    assert flags["namespace"] == NAMESPACE
    permitted = {
        (resource, name)
        for role in (*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole"))
        for rule in role["rules"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [])
    }
    expected = {
        ("leases", flags["lease-name"]),
        ("mutatingwebhookconfigurations", flags["webhook-configuration"]),
    }
    if flags["certificates"] == "self":
        expected.add(("secrets", flags["certificate-secret"]))
    assert permitted == expected
    for webhook in the(objects, "MutatingWebhookConfiguration")["webhooks"]:
        service = webhook["clientConfig"]["service"]
        assert (service["name"], service["namespace"]) == (flags["webhook-service"], NAMESPACE)


def test_each_binding_binds_what_there_is(objects, pod):
    """To the service account of the pods."""
    roles = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects}
    bindings = of_kind(objects, "RoleBinding") + of_kind(objects, "ClusterRoleBinding")
    for binding in bindings:
        reference = binding["roleRef"]
        assert (reference["kind"], binding["metadata"].get("namespace"), reference["name"]) in roles
        (subject,) = binding["subjects"]
        assert subject["name"] == pod["spec"]["serviceAccountName"]
        assert subject["namespace"] == NAMESPACE
    assert len(bindings) == len(of_kind(objects, "Role") + of_kind(objects, "ClusterRole"))


def test_permissions_are_few(objects):
    """Nothing by wildcard; no Secret but the one with the certificate; no pods are executed in."""
    for role in (*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole")):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"pods/exec", "pods/binding", "nodes/proxy", "serviceaccounts/token"} & {
                *rule["resources"]
            }
            if "secrets" in rule["resources"]:
                assert role["kind"] == "Role"
                assert rule["verbs"] == ["create"] or rule["resourceNames"]
            if "nodes" in rule["resources"]:
                assert {*rule["verbs"]} <= {"get", "list", "watch"}


def test_with_named_namespaces_only_those_are_changed():
    """What is elsewhere is only read, for the room that it takes; the webhook hears of no others."""
    objects = render(RELEASES["namespaces"])
    (cluster,) = of_kind(objects, "ClusterRole")
    of_no_namespace = {
        "tokenreviews",
        "subjectaccessreviews",
        "mutatingwebhookconfigurations",
        "trainingqueues/status",
    }
    for rule in cluster["rules"]:
        assert {*rule["verbs"]} <= {"get", "list", "watch"} or {*rule["resources"]} <= of_no_namespace
    roles = {role["metadata"]["namespace"] for role in of_kind(objects, "Role")}
    assert roles == {NAMESPACE, "team-a", "team-b"}
    for webhook in the(objects, "MutatingWebhookConfiguration")["webhooks"]:
        among = webhook["namespaceSelector"]["matchExpressions"][-1]
        assert (among["operator"], among["values"]) == ("In", ["team-a", "team-b"])
    assert flags_of(the(objects, "Deployment")["spec"]["template"])["watch-namespaces"] == "team-a,team-b"


def test_images_have_versions(objects, pod):
    """Neither is `latest`: both are the chart's own version."""
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    (container,) = pod["spec"]["containers"]
    assert container["image"] == f"docker.io/specon/manager:{version}"
    assert config_of(objects)["sidecar"]["image"] == f"docker.io/specon/sidecar:{version}"


def test_a_digest_wins_over_a_tag():
    """It is for users who want to run exactly what was checked."""
    digest = "sha256:" + "0" * 64
    objects = render({"image": {"tag": "1", "digest": digest}})
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"docker.io/specon/manager@{digest}"


def config_of(objects):
    return yaml.safe_load(the(objects, "ConfigMap")["data"]["config.yaml"])


def test_the_manager_understands_its_flags_and_its_configuration(objects, pod, tmp_path):
    """Each flag and each field is known to `specon serve`, and the defaults are its own."""
    file = tmp_path / "config.yaml"
    file.write_text(the(objects, "ConfigMap")["data"]["config.yaml"])
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_arguments(parser)
    (container,) = pod["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "config"]
    flags = [flag.replace(mount["mountPath"], str(file)) for flag in container["args"][1:]]
    settings = read_serve_settings(parser.parse_args(flags))
    assert settings.decisions == CLUSTER_DEFAULTS
    assert (settings.sidecar.pull_policy, settings.sidecar.heartbeat) == ("IfNotPresent", 10)
    assert {*settings.sidecar.resources} == {"requests", "limits"}
    assert settings.hold_room
    assert settings.progress_seconds == 60


def test_large_numbers_stay_numbers():
    """A million seconds are not written in a form that is read as a text."""
    config = config_of(render({"settings": {"gate": {"horizon": 1_000_000}, "tick": 2_000_000.0}}))
    assert (config["gate"]["horizon"], config["tick"]) == (1_000_000, 2_000_000)


def schema_properties(schema, path=()):
    for name, inner in schema.get("properties", {}).items():
        yield (*path, name)
        yield from schema_properties(inner, (*path, name))


def test_the_schema_knows_no_setting_that_the_manager_does_not():
    """Each field below `settings` is one of the manager's, with the same name."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = msgspec.structs.fields(Settings)
    of_the_backend = {
        "hold_room",
        "progress_seconds",
        "signals",
        "train_job_status",
        "log_streams",
        "forecasts",
    }
    names = {(field.encode_name,) for field in known} | {(name,) for name in of_the_backend}
    for field in known:
        if hasattr(field.type, "__struct_fields__"):
            names |= {(field.encode_name, inner) for inner in field.type.__struct_fields__}
    assert {*schema_properties(schema["properties"]["settings"])} <= names


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": "three"}, "replicas"),
        ({"image": {"tag": "latest"}}, "tag"),
        ({"settings": {"budgets": {"moves_atonce": 1}}}, "moves_atonce"),
        ({"settings": {"gate": {"horizon": 0}}}, "horizon"),
        ({"sidecar": {"heartbeat": 0}}, "heartbeat"),
        ({"sidecar": {"helperVolume": "hostPath"}}, "helperVolume"),
        ({"settings": {"log_streams": -1}}, "log_streams"),
        ({"webhook": {"certificates": {"mode": "helm"}}}, "mode"),
        ({"watchNamespaces": ["Team A"]}, "watchNamespaces"),
        ({"placeholders": {"priorityClass": {"value": 10}}}, "value"),
        ({"placeholders": {"guardPriorityClass": {"value": 0}}}, "value"),
        ({"settings": {"signals": ["slurm"]}}, "signals"),
        ({"webhook": {"certificates": {"mode": "provided"}}}, "webhook.certificates.caBundle"),
    ],
)
def test_wrong_values_are_refused_by_name(values, named):
    """Before anything is installed."""
    assert named in refusal(values)


def test_old_clusters_are_refused():
    """Below 1.30 scheduling directives and match conditions are not as we need them."""
    assert "1.29" in refusal({}, "--kube-version=1.29.9")
    assert render({}, "--kube-version=1.30.0")


def test_certificates_of_our_own_leave_nothing_to_render():
    """Neither Secret nor caBundle: the leader writes both, and an upgrade takes neither away."""
    objects = render()
    assert not of_kind(objects, "Secret")
    for webhook in the(objects, "MutatingWebhookConfiguration")["webhooks"]:
        assert "caBundle" not in webhook["clientConfig"]


def test_provided_certificates_are_mounted_and_their_authority_is_told():
    """And the manager has no right to any Secret."""
    objects = render(RELEASES["provided"])
    for webhook in the(objects, "MutatingWebhookConfiguration")["webhooks"]:
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == b"PEM"
    pod = the(objects, "Deployment")["spec"]["template"]
    mounted(pod, "tls")
    assert not [
        rule for role in of_kind(objects, "Role") for rule in role["rules"] if "secrets" in rule["resources"]
    ]


def test_cert_manager_makes_what_is_mounted():
    """A certificate for both services, and its authority written into the webhook configuration."""
    objects = render(RELEASES["cert-manager"])
    certificate = the(objects, "Certificate", "specon")
    webhook = the(objects, "MutatingWebhookConfiguration")
    assert webhook["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/specon"}
    mounted(the(objects, "Deployment")["spec"]["template"], certificate["spec"]["secretName"])
    for service in of_kind(objects, "Service"):
        assert f"{service['metadata']['name']}.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    issuer = certificate["spec"]["issuerRef"]
    assert the(objects, "Issuer", issuer["name"])["spec"]["ca"]["secretName"] == "specon-authority"
    others = {
        "webhook": {"certificates": {"mode": "cert-manager", "certManager": {"issuerRef": {"name": "x"}}}}
    }
    assert not of_kind(render(others), "Issuer")


def mounted(pod, secret):
    (volume,) = [one for one in pod["spec"]["volumes"] if one.get("secret") == {"secretName": secret}]
    (container,) = pod["spec"]["containers"]
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    assert mount["mountPath"] == flags_of(pod)["certificate-directory"]


def test_the_webhook_hears_of_annotated_pods_only():
    """The chart writes what the manager's own description of its webhook says, in each field."""
    settings = WebhookSettings(
        name=f"{NAMESPACE}-{RELEASE}",
        namespace=NAMESPACE,
        service=f"{RELEASE}-webhook",
    )
    expected = webhook_configuration(settings, None)["webhooks"]
    assert the(render(), "MutatingWebhookConfiguration", settings.name)["webhooks"] == expected
    for webhook in expected:
        (condition,) = webhook["matchConditions"]
        assert "'specon.io/inject' in object.metadata.annotations" in condition["expression"]


def test_evictions_are_nobodys_business_unless_they_are_to_be_answered():
    """No webhook, no right that it needs; then both, as the manager describes it."""
    assert not of_kind(render(), "ValidatingWebhookConfiguration")
    values = {"interception": {"enabled": True}}
    settings = WebhookSettings(
        name=f"{NAMESPACE}-{RELEASE}", namespace=NAMESPACE, service=f"{RELEASE}-webhook"
    )
    user = f"system:serviceaccount:{NAMESPACE}:{the(render(), 'ServiceAccount')['metadata']['name']}"
    expected = eviction_webhook(settings, None, user=user)["webhooks"]
    assert the(render(values), "ValidatingWebhookConfiguration", settings.name)["webhooks"] == expected
    more = permitted(render(values), {}) - permitted(render(), {})
    assert {(one.resource, one.verb) for one in more} == {
        ("nodes", "get"),
        ("poddisruptionbudgets", "watch"),
        ("selfsubjectreviews", "create"),
        ("validatingwebhookconfigurations", "get"),
        ("validatingwebhookconfigurations", "patch"),
    }
    narrowed = render({**values, "watchNamespaces": ["team-a"]})
    (webhook,) = the(narrowed, "ValidatingWebhookConfiguration")["webhooks"]
    _, watched = webhook["namespaceSelector"]["matchExpressions"]
    assert watched["values"] == ["team-a", NAMESPACE]  # and that of the leader, which is the last to leave


def test_more_namespaces_can_be_left_out():
    """Beside those of the system and of the manager, which never wait for us."""
    values = {"webhook": {"excludedNamespaces": ["istio-system"], "failurePolicy": "Fail"}}
    for webhook in the(render(values), "MutatingWebhookConfiguration")["webhooks"]:
        (left_out,) = webhook["namespaceSelector"]["matchExpressions"]
        assert left_out["values"] == ["kube-system", NAMESPACE, "istio-system"]
        assert webhook["failurePolicy"] == "Fail"


def test_placeholders_give_way():
    """They have less priority than anything, and drive nobody out."""
    guard, placeholder = sorted(of_kind(render(), "PriorityClass"), key=lambda one: one["metadata"]["name"])
    assert (placeholder["value"], placeholder["preemptionPolicy"]) == (-1000, "Never")
    assert not placeholder["globalDefault"]
    assert (guard["value"], guard["preemptionPolicy"], guard["globalDefault"]) == (1000000, "Never", False)


def test_what_keeps_no_room_changes_no_status_of_pods():
    """The permission is there for guards alone."""
    named = {
        hold: {
            resource
            for role in of_kind(render({"settings": {"hold_room": hold}}), "ClusterRole")
            for rule in role["rules"]
            for resource in rule["resources"]
        }
        for hold in (True, False)
    }
    assert named[True] - named[False] == {"pods/status"}


def test_the_definitions_of_the_custom_resources_are_installed():
    """By helm's own way for them."""
    definitions = of_kind(render({}, "--include-crds"), "CustomResourceDefinition")
    assert {one["spec"]["names"]["kind"] for one in definitions} == {
        "Migration",
        "TrainingJob",
        "TrainingProgress",
        "TrainingQueue",
    }


@pytest.mark.parametrize("release", ["a" * 53, "specon-two"])
def test_long_release_names_stay_names(release):
    """In namespaces of at most 63 characters, as services need them; those of the cluster may be longer."""
    for one in render({}, release=release):
        assert len(one["metadata"]["name"]) <= (63 if "namespace" in one["metadata"] else 253)


OBSERVER = {"observe": {"enabled": True, "selector": "app in (train, tune)"}}


def test_an_observer_may_read_and_nothing_else():
    """No webhook, no role that writes anything anywhere, no object of another kind."""
    objects = render(OBSERVER)
    kinds = {each["kind"] for each in objects}
    assert kinds <= {"ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "ServiceAccount"}
    (role,) = of_kind(objects, "ClusterRole")
    for rule in role["rules"]:
        assert {*rule["verbs"]} <= {"get", "list", "watch"}
        assert "secrets" not in rule["resources"]


def test_the_flags_of_an_observer_are_those_that_it_takes(tmp_path):
    """Its settings are read from the same file as a manager's."""
    objects = render({**OBSERVER, "watchNamespaces": ["a", "b"], "settings": {"policy": "specon"}})
    (container,) = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "observe"
    parser = argparse.ArgumentParser()
    observe.add_arguments(parser)
    config = tmp_path / "config.yaml"
    config.write_text(the(objects, "ConfigMap")["data"]["config.yaml"])
    given = parser.parse_args([*container["args"][1:], f"--config={config}"])
    options = observe.options_of(given)
    assert options.namespaces == ("a", "b")
    assert options.settings.policy == "specon"
    (term,) = options.selector["matchExpressions"]
    assert term == {"key": "app", "operator": "In", "values": ["train", "tune"]}


def test_an_observer_without_a_selector_is_refused():
    """Which pods train nobody else can know."""
    assert "observe.selector" in refusal({"observe": {"enabled": True}})
