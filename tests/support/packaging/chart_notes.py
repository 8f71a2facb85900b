"""What the chart tells after an installation, and the pod to try in it."""

import re
import textwrap
from typing import Any, Final

import yaml

_POD: Final = re.compile(r"<<'POD'\n(.*?)\n *POD\n", re.DOTALL)


def trial_pod(notes: str) -> dict[str, Any]:
    """Return the pod that the notes have one apply. Raises AssertionError where there is none."""
    found = _POD.search(notes)
    assert found is not None, notes
    pod: dict[str, Any] = yaml.safe_load(textwrap.dedent(found[1]))
    return pod
