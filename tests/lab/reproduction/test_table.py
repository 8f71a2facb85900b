"""Every reproduction that the command knows can be run: its workloads, policies and measures are there."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from specon_lab.reproduction.table import NAMES, reproduction_named
from specon_lab.workloads.table import WORKLOADS
from specon_manager.policies.table import policy_named, settings_of


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_run_can_be_made_in_another_process(name, quick):
    """No run is there twice, each names a policy, parameters and a workload that exist, and can be sent."""
    found = reproduction_named(name)
    assert found.name == name
    runs = found.runs(quick)
    assert max(Counter((run.key, run.seed) for run in runs).values()) == 1
    for run in runs:
        settings_of(policy_named(run.policy), run.parameters)
    assert {run.workload.partition(":")[0] for run in runs} <= set(WORKLOADS)
    sent = pickle.loads(pickle.dumps(runs))
    assert [(run.key, run.seed) for run in sent] == [(run.key, run.seed) for run in runs]


@pytest.mark.parametrize("name", NAMES)
def test_quick_is_less(name):
    """Fewer runs than the whole."""
    found = reproduction_named(name)
    assert len(found.runs(True)) < len(found.runs(False))


def test_an_unknown_name_is_refused_with_the_known_ones():
    """ValueError."""
    with pytest.raises(ValueError, match="reproduction: 'nobody' is not one of specon, kod2"):
        reproduction_named("nobody")
