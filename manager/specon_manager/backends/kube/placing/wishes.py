"""What the object of a job is to say for an order, from what it says at this moment. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from specon_manager.backends.kube.admission.annotations import HELD, SCALED
from specon_manager.backends.kube.owners.job_patch import (
    SWITCHES,
    JobWish,
    asked_of,
    suspended,
    workers_of,
)
from specon_manager.backends.kube.owners.patching import mark_of
from specon_manager.backends.kube.owners.way import RefusedError
from specon_manager.backends.kube.watching.fields import mapping
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec, role_of

Object = dict[str, Any]


class EditedError(Exception):
    """The user asks for another number of workers by now: theirs counts, and it is not overwritten."""


class Circumstances(Struct, frozen=True, kw_only=True):
    """What is known beside the order and the object."""

    spec: JobSpec
    admitting: bool
    """Whether the order admits the job: it is resumed then, whoever suspended it."""
    ours: Collection[int]
    """Numbers of workers that are no edit: what it had when the change began, and what we wrote since."""
    runs: bool
    """Whether any of its pods has a node."""


def wish(kind: str, obj: Object, order: PlaceJob, known: Circumstances) -> JobWish | None:
    """Return what the object is to say; None where nothing about it is ours to say.

    Raises RefusedError where it cannot be, EditedError where its user wants something else by now.
    """
    if not order.change:
        return JobWish(suspended=False, mark=None) if mark_of(obj) else None
    if not order.placement:
        return _none_runs(kind, obj, order, known.spec)
    wanted = workers_in(order.placement)
    workers = workers_of(kind, obj)
    mark, switched_off = mark_of(obj), suspended(kind, obj)
    if switched_off and not mark and not known.admitting:
        raise RefusedError("it was suspended by somebody else")
    # What a TrainJob does not say, its runtime does; it cannot be changed anyway.
    fits = workers == wanted or kind == "TrainJob"
    found = JobWish() if fits else _resized(kind, obj, wanted, known)
    return JobWish(
        suspended=False if switched_off else None,
        mark=None,
        workers=found.workers,
        scaled=found.scaled,
    )


def workers_in(placement: Mapping[str, object]) -> int:
    """Return how many workers a placement has, as the objects of jobs count them."""
    return sum(role_of(name) != "ps" for name in placement)


def _none_runs(kind: str, obj: Object, order: PlaceJob, spec: JobSpec) -> JobWish | None:
    if kind not in SWITCHES:
        return None
    mark = mark_of(obj)
    if suspended(kind, obj) and not mark:
        return None  # by its user: its pods go anyway, and it is theirs to resume
    return JobWish(suspended=True, mark=f"{HELD}{order.change}" if spec.held else order.change)


def _resized(kind: str, obj: Object, wanted: int, known: Circumstances) -> JobWish:
    workers = workers_of(kind, obj)
    if workers not in known.ours:
        raise EditedError(f"its user changed the number of its workers to {workers} meanwhile")
    if known.spec.resizing == "none":
        raise RefusedError(known.spec.unscalable or "its number of workers cannot be changed")
    if known.spec.resizing == "restart" and known.runs and not suspended(kind, obj):
        raise RefusedError("its number of workers cannot be changed while it runs")
    annotations = mapping(mapping(obj.get("metadata")).get("annotations"))
    asked = asked_of(workers, str(annotations.get(SCALED, "")))
    return JobWish(workers=wanted, scaled=None if asked == wanted else f"{asked}:{wanted}")
