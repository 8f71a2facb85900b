"""The table of scenarios, through `step` with two kinds of backend, and through the simulator."""

import pytest

from support.scenarios.scenario import SIMULATOR, check
from support.scenarios.simulation import simulated
from support.scenarios.steps import Steps
from support.scenarios.table import SCENARIOS

CASES = [
    pytest.param(scenario, runner, id=f"{scenario.name}-{runner}")
    for scenario in SCENARIOS
    for runner in scenario.runners
]


@pytest.mark.parametrize(("scenario", "runner"), CASES)
def test_what_is_decided_does_not_depend_on_who_carries_it_out(scenario, runner):
    """The same changes in the same order, and the same jobs at the end, with every runner."""
    state = simulated(scenario) if runner == SIMULATOR else Steps(scenario, runner).run()
    check(scenario, state)


def test_every_scenario_has_a_name_and_a_rule_of_its_own():
    """A failure is found by its name, and the rule says why it is one."""
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    assert all(scenario.rule for scenario in SCENARIOS)
