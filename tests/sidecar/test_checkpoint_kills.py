"""A checkpoint that was torn by a kill never counts; `SPECON_KILLS`: how many kills in each format."""

import os

import pytest

from support.checkpoints.kills import kills
from support.checkpoints.writers import WRITERS


@pytest.mark.processes
@pytest.mark.parametrize("name", WRITERS)
def test_a_torn_checkpoint_never_counts_and_the_newest_whole_one_is_named(tmp_path, name):
    """Whenever the trainer is killed; ten thousand times by `tests/support/checkpoints/kills.py 10000`."""
    found = kills(name, int(os.environ.get("SPECON_KILLS", "8")), 1, tmp_path / "out")
    assert not [what for what in found if what.startswith("WRONG")], found
