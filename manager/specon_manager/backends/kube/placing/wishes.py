"""What the object of a job is to say for an order, from what it says at this moment. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from specon_manager.backends.kube.objects.annotation_keys import HELD, SCALED
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.job_patch import (
    JobWish,
    is_suspended,
    read_asked_workers,
    workers_of,
)
from specon_manager.backends.kube.owners.context import EditedError, RefusedError
from specon_manager.backends.kube.owners.patching import mark_of
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.model.actions import PlaceJob
from specon_manager.model.cluster import JobSpec, role_of
from specon_manager.model.transactions import RESUMED

_OVER: Final = "released"
"""Why a job without a change in flight is suspended: a pod without reports has to go first."""


class Circumstances(Struct, frozen=True, kw_only=True):
    """The facts beside the order and the object."""

    spec: JobSpec
    moves: bool = False
    """Whether the order moves replicas: their number is left alone."""
    gang: bool = False
    """Whether these are all of the job, which moves as one."""
    stops: bool
    """Whether the job is to have no running pod now."""
    admitting: bool
    """Whether the order admits the job: it is resumed then, no matter who suspended it."""
    ours: Collection[int]
    """Numbers of workers that are no edit: what it had when the change began, and what we wrote since."""
    runs: bool
    """Whether any of its pods has a node."""
    ending: bool = False
    """Whether any of its pods was told to end and is not gone."""
    in_kueue: bool = False
    """Whether Kueue suspends it, and lets it run again with as many workers as it asks for then."""
    against: str = ""
    """Why it is not told to leave after all, in words; empty where nothing has come between."""


def wish(kind: str, obj: Object, order: PlaceJob, known: Circumstances) -> JobWish | None:
    """Return what the object is to say; None where nothing about it is ours to say.

    Raises RefusedError where it cannot be, EditedError where its user wants something else by now.
    """
    if known.stops:
        return _none_runs(kind, obj, order, known)
    if not order.transaction:
        return JobWish(suspended=False, mark=None) if mark_of(obj) else None
    mark, switched_off = mark_of(obj), is_suspended(kind, obj)
    if known.gang and mark == _ours(order, known) and not switched_off:
        raise RefusedError(RESUMED)  # we take our mark away in the patch that resumes it
    if switched_off and not mark and not known.admitting:
        if known.moves and order.ending:
            return None  # the suspension ends those that are to go, too
        if known.in_kueue and not known.moves:
            return _size(kind, obj, order, known)
        raise RefusedError("someone else suspended it")
    found = JobWish() if known.moves else _size(kind, obj, order, known)
    return JobWish(
        suspended=False if switched_off else None,
        mark=None,
        workers=found.workers,
        scaled=found.scaled,
    )


def workers_in(placement: Mapping[str, object]) -> int:
    """Return how many workers a placement has, as the objects of jobs count them."""
    return sum(role_of(name) != "ps" for name in placement)


def _none_runs(kind: str, obj: Object, order: PlaceJob, known: Circumstances) -> JobWish | None:
    mark, switched_off = mark_of(obj), is_suspended(kind, obj)
    if switched_off and not mark:
        return None  # by its user: its pods go anyway, and it is theirs to resume
    ours = _ours(order, known)
    if known.moves and mark == ours and not switched_off:
        if known.gang and not known.ending:
            raise RefusedError(RESUMED)
        return None  # resumed by its user since: it is not suspended again
    if known.against and not mark:
        raise RefusedError(known.against)
    return JobWish(suspended=True, mark=ours)


def _ours(order: PlaceJob, known: Circumstances) -> str:
    """Return the mark of a job that is suspended for this order."""
    name = order.transaction or _OVER
    return f"{HELD}{name}" if known.spec.held else name


def _size(kind: str, obj: Object, order: PlaceJob, known: Circumstances) -> JobWish:
    """Return the number of workers that the object is to ask for, where that is another one."""
    wanted, workers = workers_in(order.placement), workers_of(kind, obj)
    if workers == wanted or kind == "TrainJob":
        return JobWish()  # what a TrainJob does not say, its runtime does; it cannot be changed anyway
    if workers not in known.ours:
        raise EditedError(f"its user changed the number of its workers to {workers} meanwhile")
    if known.spec.resizing == "none":
        raise RefusedError(known.spec.unscalable or "its number of workers cannot be changed")
    if known.spec.resizing == "restart" and known.runs and not is_suspended(kind, obj):
        raise RefusedError("its number of workers cannot be changed while it runs")
    if known.spec.headroom is not None and wanted - workers > known.spec.headroom:
        raise RefusedError(known.spec.no_headroom)
    annotations = mapping(mapping(obj.get("metadata")).get("annotations"))
    asked = read_asked_workers(workers, str(annotations.get(SCALED, "")))
    return JobWish(workers=wanted, scaled=None if asked == wanted else f"{asked}:{wanted}")
