"""A checkpoint that was torn by a kill never counts; `SPECON_KILLS`: how many kills in each format."""

import os

import pytest

from support.checkpoints.kills import kills
from support.checkpoints.writers import WRITERS

KILLS = int(os.environ.get("SPECON_KILLS", "8"))


@pytest.mark.processes
@pytest.mark.timeout(max(120, KILLS))  # a second for each, so that a loaded machine is no failure
@pytest.mark.parametrize("name", WRITERS)
def test_a_torn_checkpoint_never_counts_and_the_newest_whole_one_is_named(tmp_path, name):
    """Whenever the trainer is killed; ten thousand times by `tests/support/checkpoints/kills.py 10000`."""
    found = kills(name, KILLS, 1, tmp_path / "out")
    assert not [what for what in found if what.startswith("WRONG")], found
