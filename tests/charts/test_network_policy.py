"""The NetworkPolicy lets through what the managers need, and names the ports that they have."""

from pathlib import Path

import kubernetes_validate
import pytest

from support.packaging.helm import of_kind, refusal, render, the

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"
SCRAPER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


API_SERVER = {"ipBlock": {"cidr": "10.0.0.1/32"}}
ALL_PODS = {"namespaceSelector": {}}


def policy(**values):
    objects = render({"networkPolicy": {"enabled": True, "webhookFrom": [API_SERVER], **values}})
    return the(objects, "NetworkPolicy"), the(objects, "Deployment")["spec"]["template"]


def test_it_is_off_unless_it_is_asked_for():
    """A wrong one silently cuts the webhook off; the page on security says so."""
    assert not of_kind(render(), "NetworkPolicy")
    assert "unless `networkPolicy.enabled` is true" in " ".join(SECURITY.read_text().split())


def test_it_has_to_be_said_where_the_api_server_comes_from():
    """A port that asks for nothing is open to nobody by mistake."""
    assert "networkPolicy.webhookFrom: name where the API server comes from" in refusal(
        {"networkPolicy": {"enabled": True}}
    )


def test_who_reports_cannot_reach_the_webhook():
    """Admission is for the API server alone, reports are for pods: each has a rule and a port of its own."""
    found, pod = policy()
    by_port = {rule["ports"][0]["port"]: rule for rule in found["spec"]["ingress"]}
    assert [len(rule["ports"]) for rule in by_port.values()] == [1, 1]
    assert by_port["https"]["from"] == [API_SERVER]
    assert by_port["reports"]["from"] == [ALL_PODS]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["https"] != ports["reports"]


def test_reports_can_be_kept_to_namespaces():
    """The peers replace the default, which is every pod of the cluster."""
    team = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    found, _ = policy(reportsFrom=[team])
    (rule,) = [rule for rule in found["spec"]["ingress"] if rule["ports"][0]["port"] == "reports"]
    assert rule["from"] == [team]


def test_it_selects_the_managers_and_names_their_ports():
    """Nothing comes in from everywhere; nobody scrapes, unless that is said."""
    found, pod = policy()
    assert found["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (container,) = pod["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    assert all(rule["from"] for rule in found["spec"]["ingress"])
    assert {port["port"] for rule in found["spec"]["ingress"] for port in rule["ports"]} <= names


def test_metrics_are_for_those_who_are_named():
    """And for nobody else: the rule has a `from`."""
    found, pod = policy(metricsFrom=[SCRAPER])
    _, _, metrics = found["spec"]["ingress"]
    assert metrics == {"ports": [{"port": "metrics", "protocol": "TCP"}], "from": [SCRAPER]}
    (container,) = pod["spec"]["containers"]
    assert "metrics" in {port["name"] for port in container["ports"]}


def test_managers_reach_the_api_server_and_names_only():
    """Its ports, at its addresses where they are known."""
    found, _ = policy()
    api_server, names = found["spec"]["egress"]
    assert [port["port"] for port in api_server["ports"]] == [443, 6443]
    assert "to" not in api_server
    assert {(port["port"], port["protocol"]) for port in names["ports"]} == {(53, "UDP"), (53, "TCP")}
    found, _ = policy(apiServerAddresses=["10.0.0.1/32", "fd00::1/128"], apiServerPorts=[8443])
    api_server, _ = found["spec"]["egress"]
    assert api_server["ports"] == [{"port": 8443, "protocol": "TCP"}]
    assert [peer["ipBlock"]["cidr"] for peer in api_server["to"]] == ["10.0.0.1/32", "fd00::1/128"]


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_the_server_takes_it(version):
    """With everything in it."""
    found, _ = policy(metricsFrom=[SCRAPER], apiServerAddresses=["10.0.0.1/32"])
    kubernetes_validate.validate(found, version, strict=True)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"metricsFrom": [{}]}, "metricsFrom"),
        ({"webhookFrom": [{}]}, "webhookFrom"),
        ({"reportsFrom": []}, "reportsFrom"),
        ({"reportsFrom": [{"podSelectors": {}}]}, "reportsFrom"),
        ({"metricsFrom": [{"podSelectors": {}}]}, "podSelectors"),
        ({"apiServerAddresses": ["10.0.0.1"]}, "apiServerAddresses"),
        ({"apiServerPorts": []}, "apiServerPorts"),
        ({"enable": True}, "enable"),
    ],
)
def test_wrong_values_are_refused_by_name(values, named):
    """An empty peer would be everybody."""
    assert named in refusal({"networkPolicy": values})
