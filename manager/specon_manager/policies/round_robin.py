"""Placement only: jobs stay where the round robin put them. The baseline of SpeCon's experiments."""

from collections.abc import Iterator

from msgspec import Struct

from specon_manager.model.actions import Proposal
from specon_manager.model.snapshot import Snapshot
from specon_manager.policies.placement import admit_round_robin


class RoundRobinSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """It has none."""


def propose(snapshot: Snapshot, settings: RoundRobinSettings) -> Iterator[Proposal]:
    """Admit pending replicas in turn and never move one."""
    del settings
    yield from admit_round_robin(snapshot)
