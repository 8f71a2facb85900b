"""The NetworkPolicy lets through what the managers need, and names the ports that they have."""

import kubernetes_validate
import pytest

from support.helm import of_kind, refusal, render, the

SCRAPER = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def policy(**values):
    objects = render({"networkPolicy": {"enabled": True, **values}})
    return the(objects, "NetworkPolicy"), the(objects, "Deployment")["spec"]["template"]


def test_it_is_off_unless_it_is_asked_for():
    """A wrong one silently cuts the webhook off."""
    assert not of_kind(render(), "NetworkPolicy")


def test_it_selects_the_managers_and_names_their_ports():
    """Admission and reports come from everywhere; nobody scrapes, unless that is said."""
    found, pod = policy()
    assert found["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
    (container,) = pod["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    (everywhere,) = found["spec"]["ingress"]
    assert everywhere == {"ports": [{"port": "https", "protocol": "TCP"}]}
    assert "https" in names


def test_metrics_are_for_those_who_are_named():
    """And for nobody else: the rule has a `from`."""
    found, pod = policy(metricsFrom=[SCRAPER])
    _, metrics = found["spec"]["ingress"]
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
        ({"metricsFrom": [{"podSelectors": {}}]}, "podSelectors"),
        ({"apiServerAddresses": ["10.0.0.1"]}, "apiServerAddresses"),
        ({"apiServerPorts": []}, "apiServerPorts"),
        ({"enable": True}, "enable"),
    ],
)
def test_wrong_values_are_refused_by_name(values, named):
    """An empty peer would be everybody."""
    assert named in refusal({"networkPolicy": values})
