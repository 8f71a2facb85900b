"""What the chart makes of monitors, alerts and dashboards, as helm renders it."""

import json

import pytest
import yaml

from specon_tools.observability.alerts import ALERTS
from specon_tools.observability.files import DASHBOARDS, chart_files
from support.packaging.helm import CHART, NAMESPACE, helm, of_kind, refusal, render, the

MONITORING = ("ServiceMonitor", "PodMonitor", "PrometheusRule")


def on(**blocks):
    return {"metrics": {name: {"enabled": True, **values} for name, values in blocks.items()}}


def test_nothing_of_it_is_there_without_being_asked_for():
    """A cluster without the Prometheus operator would refuse it."""
    objects = render()
    assert not [one for one in objects if one["kind"] in MONITORING]
    assert len(of_kind(objects, "ConfigMap")) == 1
    assert not [one for one in of_kind(objects, "Service") if one["metadata"]["name"].endswith("-metrics")]


def test_values_of_an_older_release_still_render():
    """`helm upgrade --reuse-values` brings values without this block."""
    assert render({"metrics": None})


@pytest.mark.parametrize("monitor", ["serviceMonitor", "podMonitor"])
def test_all_managers_are_scraped(monitor):
    """At the port that their pods name; the monitor has the labels that Prometheus looks for."""
    objects = render(on(**{monitor: {"labels": {"release": "stack"}, "interval": "15s"}}))
    made = the(objects, monitor[0].upper() + monitor[1:])
    assert made["metadata"]["labels"]["release"] == "stack"
    pods = the(objects, "Deployment")["spec"]["template"]
    (container,) = pods["spec"]["containers"]
    assert "metrics" in {port["name"] for port in container["ports"]}
    spec = made["spec"]
    assert spec["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    wanted = spec["selector"]["matchLabels"].items()
    if monitor == "podMonitor":
        assert wanted <= pods["metadata"]["labels"].items()
    else:
        (service,) = [
            one for one in of_kind(objects, "Service") if wanted <= one["metadata"]["labels"].items()
        ]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= pods["metadata"]["labels"].items()
        (port,) = service["spec"]["ports"]
        assert (port["name"], port["targetPort"]) == ("metrics", "metrics")
    (endpoint,) = spec["endpoints" if monitor == "serviceMonitor" else "podMetricsEndpoints"]
    assert endpoint == {"port": "metrics", "path": "/metrics", "interval": "15s"}


def test_nobody_is_scraped_twice():
    """A ServiceMonitor and a PodMonitor at once are refused."""
    assert "metrics.podMonitor.enabled" in refusal(on(serviceMonitor={}, podMonitor={}))


def test_alerts_are_those_of_the_file():
    """Their templates are Prometheus's, and are left alone."""
    rule = the(render(on(prometheusRule={"labels": {"release": "stack"}})), "PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "stack"
    assert rule["spec"] == yaml.safe_load(chart_files()["alerts.yaml"])


def test_alerts_can_be_left_out_labelled_and_linked():
    """Alerts are left out by name; labels route them; each has the address of its runbook."""
    settings = {
        "disabled": ["SpeconCheckpointTooOld"],
        "ruleLabels": {"team": "ml", "severity": "none"},
        "runbooks": "https://docs.example.com/runbooks",
    }
    rules = the(render(on(prometheusRule=settings)), "PrometheusRule")["spec"]["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules] == [
        alert.name for alert in ALERTS if alert.name != "SpeconCheckpointTooOld"
    ]
    for rule, alert in zip(rules, [a for a in ALERTS if a.name != "SpeconCheckpointTooOld"], strict=True):
        assert rule["labels"] == {"severity": alert.severity, "team": "ml"}
        url = f"https://docs.example.com/runbooks#{alert.name.lower()}"
        assert rule["annotations"]["runbook_url"] == url


def test_each_dashboard_is_a_config_map():
    """As it is in the file, with the label that Grafana's sidecar looks for."""
    objects = render(on(dashboards={"namespace": "monitoring"}))
    made = [one for one in of_kind(objects, "ConfigMap") if "grafana_dashboard" in one["metadata"]["labels"]]
    assert len(made) == len({one["metadata"]["name"] for one in made}) == len(DASHBOARDS)
    for one in made:
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "specon"}
        assert one["metadata"]["namespace"] == "monitoring"
        ((name, content),) = one["data"].items()
        assert json.loads(content) == json.loads(chart_files()[f"dashboards/{name}"])
        assert len(content) < 900_000  # an object of Kubernetes may have a megabyte


def test_label_and_folder_can_be_chosen():
    """Installations of Grafana differ in both."""
    settings = {"label": "dashboards.example.com/load", "labelValue": "yes", "folder": ""}
    made = of_kind(render(on(dashboards=settings)), "ConfigMap")
    chosen = [one for one in made if one["metadata"]["labels"].get("dashboards.example.com/load") == "yes"]
    assert len(chosen) == len(DASHBOARDS)
    assert not any("annotations" in one["metadata"] for one in chosen)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (on(serviceMonitor={"intervall": "1m"}), "intervall"),
        (on(serviceMonitor={"interval": "often"}), "interval"),
        (on(podMonitor={"labels": {"a": 1}}), "labels"),
        (on(prometheusRule={"disabled": ["SpeconMoveFails"]}), "SpeconMoveFails"),
        (on(prometheusRule={"runbooks": "docs/runbooks.md"}), "runbooks"),
        (on(dashboards={"label": ""}), "label"),
        ({"metrics": {"dashboard": {}}}, "dashboard"),
    ],
)
def test_wrong_values_are_refused_by_name(values, named):
    """Before anything is installed."""
    assert named in refusal(values)


def test_helm_finds_nothing_to_complain_of():
    """With all of it on."""
    values = on(serviceMonitor={}, prometheusRule={}, dashboards={})
    answer = helm("lint", "--strict", str(CHART), values=values)
    assert answer.returncode == 0, answer.stdout + answer.stderr
