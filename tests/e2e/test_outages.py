"""A manager is killed, frozen and away while moves are in flight; `make outages` does so for longer."""

import pytest

from specon_manager.model.transactions import FINAL_STATES
from support.local.outages import outages
from support.local.stage import Stage

pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(900)]


def test_no_outage_costs_more_steps_than_the_age_of_a_checkpoint(stage: Stage):
    """Every move ends, one copy trains each step once, and what is lost is bounded in each outage."""
    found = list(outages(stage, kills=3, freeze=4.0, away=4.0, age=1.0))
    assert [each.kind for each in found] == ["kill"] * 3 + ["freeze"] * 2 + ["away"] * 2
    assert all(each.ended in FINAL_STATES for each in found[3:])
