"""The alerts: in step, well formed, explained, and raised when they should be and only then."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from specon_tools.observability.alerts import ALERTS, anchor
from specon_tools.observability.catalogue import EVERYWHERE, ON_KUBERNETES, catalogue
from support.packaging.programs import program
from support.watching.promql import kept, selected

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "specon" / "files" / "alerts.yaml"
SCENES = Path(__file__).with_name("alert_scenes.yaml")
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text()
KNOWN = {
    name: set(labels)
    for info in catalogue()
    if info.told_by in {EVERYWHERE, ON_KUBERNETES}
    for name, labels in info.series.items()
}


def promtool(*arguments, cwd=None):
    answer = subprocess.run(
        [program("promtool"), *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=cwd
    )
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_parses_and_asks_for_what_there_is(alert):
    """Its words use only labels that its expression keeps."""
    asked = selected(alert.expr)
    assert asked
    for name, labels in asked.items():
        assert labels | kept(alert.expr).get(name, set()) <= KNOWN[name]
    words = alert.summary + alert.description
    there = set.union(*kept(alert.expr).values()) if kept(alert.expr) else set()
    assert set(re.findall(r"\$labels\.(\w+)", words)) <= there - {"le"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_has_a_section_of_the_runbooks(alert):
    """Its heading is the name of the alert, so that the anchor leads there; it says what to do."""
    _, heading, rest = RUNBOOKS.partition(f"\n## {alert.name}\n")
    assert heading
    assert len(re.findall(r"^\d\. ", rest.partition("\n## ")[0], re.MULTILINE)) >= 2
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    (rule,) = [rule for rule in rules if rule["alert"] == alert.name]
    assert rule["annotations"]["runbook"] == f"docs/runbooks.md#{anchor(alert.name)}"


def test_no_section_is_left_of_an_alert_that_is_no_more():
    """And links between sections lead somewhere."""
    headings = set(re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE))
    assert headings == {alert.name for alert in ALERTS}
    assert set(re.findall(r"\(#(\w+)\)", RUNBOOKS)) <= {anchor(name) for name in headings}


def test_promtool_reads_the_rules():
    """As Prometheus does."""
    code, output = promtool("check", "rules", str(RULES))
    assert code == 0, output
    assert f"{len(ALERTS)} rules found" in output


def test_each_alert_is_raised_and_not_raised_in_a_scene():
    """Otherwise the run of promtool would prove nothing about that alert."""
    scenes = yaml.safe_load(SCENES.read_text())["tests"]
    looks = [look for scene in scenes for look in scene["alert_rule_test"]]
    for alert in ALERTS:
        mine = [look for look in looks if look["alertname"] == alert.name]
        assert any(look.get("exp_alerts") for look in mine), alert.name
        assert any(not look.get("exp_alerts") for look in mine), alert.name


def test_alerts_are_raised_when_they_should_be(tmp_path):
    """Each scene raises its alerts, with the words that the operator reads."""
    scenes = yaml.safe_load(SCENES.read_text())
    rules = {
        rule["alert"]: rule
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
    }
    for scene in scenes["tests"]:
        for look in scene["alert_rule_test"]:
            for raised in look.get("exp_alerts", []):
                rule = rules[look["alertname"]]
                raised["exp_labels"] = {**rule["labels"], **raised.pop("labels", {})}
                described = raised.pop("description")
                raised["exp_annotations"] = {**rule["annotations"], "description": described}
    (tmp_path / "scenes.yaml").write_text(yaml.safe_dump({**scenes, "rule_files": [str(RULES)]}))
    code, output = promtool("test", "rules", "scenes.yaml", cwd=tmp_path)
    assert code == 0, output
    assert "SUCCESS" in output
