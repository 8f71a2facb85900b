"""A pause as the manager's Lease has it: an annotation, which the leader obeys. Pure.

The Lease is the one object that a leader reads every few seconds, and that a new one reads before it leads.
"""

from collections.abc import Mapping
from typing import Final

from specon_manager.backends.kube.objects.annotation_keys import PREFIX
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.transport.resources import Object

PAUSED: Final = f"{PREFIX}paused"
"""Annotation; its value is the reason in words, which may be empty."""
LEASE_LABELS: Final[Mapping[str, str]] = {f"{PREFIX}lease": "manager"}
"""By these the command line finds the Lease of a manager."""
_LONGEST: Final = 512


def pause_reason(lease: Object) -> str | None:
    """Return why nothing new is to be ordered, on one line; None where there is no pause."""
    annotations = mapping(mapping(lease.get("metadata")).get("annotations"))
    if PAUSED not in annotations:
        return None
    return " ".join(str(annotations[PAUSED]).split())[:_LONGEST]


def pause_patch(reason: str | None) -> Object:
    """Return the merge patch of the Lease that begins, rewords or (None) ends a pause."""
    value = None if reason is None else " ".join(reason.split())[:_LONGEST]
    return {"metadata": {"annotations": {PAUSED: value}}}
