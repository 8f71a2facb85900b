"""What a fuzzer's objects go through, as in a manager, and what must hold of it.

Reading an object may raise, for a guard is around it; each that does is counted, and should say nothing
instead. Whatever comes after the reading has no such excuse. No review takes longer than 50 ms.
"""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from specon_manager.backends.kube.admission.review import NoReviewError
from specon_manager.backends.kube.admission.reviews import InjectionSettings, TooLargeError, answer_bounded
from specon_manager.backends.kube.objects import device_taints
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.objects.job_patch import JobWish, job_patch
from specon_manager.backends.kube.objects.owner import OWNER_RESOURCES
from specon_manager.backends.kube.objects.pod import slim_node, slim_pod
from specon_manager.backends.kube.objects.volumes import judge_volumes, slim_claim, slim_volume
from specon_manager.backends.kube.owners.budgets import objections
from specon_manager.backends.kube.owners.context import RefusedError
from specon_manager.backends.kube.placing.gates import release_patch
from specon_manager.backends.kube.queues.record import queue_info
from specon_manager.backends.kube.records.job_record import read_training_job
from specon_manager.backends.kube.records.migration_record import read_migration
from specon_manager.backends.kube.records.pause import pause_reason
from specon_manager.backends.kube.records.pins import glance, job_glance, job_pins_of, pins_of
from specon_manager.backends.kube.records.progress_record import read_progress
from specon_manager.backends.kube.records.restore import restore
from specon_manager.backends.kube.reporting.signals import changes
from specon_manager.backends.kube.transport.rivals import webhook_namespaces
from specon_manager.backends.kube.watching.device_book import DeviceBook
from specon_manager.backends.kube.watching.ledger import Ledger
from specon_manager.backends.kube.watching.nodes import NodeBook
from specon_manager.core.state import State
from specon_manager.core.step import step
from specon_manager.model.events import ManagerStarted
from specon_manager.model.settings import Settings

Object = dict[str, Any]

REVIEW_SECONDS: Final = 0.05
"""Of processor time."""
_TRIES: Final = 5
_SETTINGS: Final = InjectionSettings(image="i", manager="https://m", ca_bundle="x" * 2000, status_port=28411)
_PINS: Final = {"ml/mnist/worker/0": "node-1", "ml/resnet/worker/3": "node-2"}
_DECISIONS: Final = Settings(policy="fifo")


class StrictReading:
    """In the place of the guard: what is raised is raised on."""

    def of(self, kind: str, name: str) -> contextlib.AbstractContextManager[None]:
        del kind, name
        return contextlib.nullcontext()


class World:
    """One manager's view of a cluster, made for each object anew."""

    def __init__(self) -> None:
        self.ledger = Ledger(remark=lambda *_: None, reading=StrictReading())  # type: ignore[arg-type]
        self.nodes = NodeBook()
        self.state, _ = step(State(), _begun(), 0.0)

    def tell(self) -> None:
        """Hand what changed to the core, as the loop does."""
        for event in (*self.nodes.events(), *self.ledger.take_events()):
            self.state, _ = step(self.state, event, 1.0)


def check(what: str, item: Object) -> bool:
    """Let everything read the object that reads such objects; whether all of that could.

    Raises whatever would end a task, and AssertionError for a review that takes too long.
    """
    return _CHECKS[what](item)


def _review(item: Object) -> bool:
    request = {
        "uid": "u",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "ml",
        "object": item,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    readable = True
    for entry in ("inject", "gate"):
        said = _timed(json.dumps(body).encode(), entry)
        readable = readable and "internal error" not in json.dumps(said)
    return readable


def _timed(body: bytes, entry: Any) -> Object | None:
    """Return the answer; the least processor time of some tries counts, since others share the processor."""
    spent = []
    for _ in range(_TRIES):
        began = time.thread_time()
        said: Object | None = None
        with contextlib.suppress(TooLargeError, NoReviewError):
            said = answer_bounded(body, _SETTINGS, _PINS, entry)
            msgspec.json.encode(said)
        spent.append(time.thread_time() - began)
        if spent[-1] < REVIEW_SECONDS:
            return said
    raise AssertionError(f"a review took {min(spent):.3f} s of processor time")


def _pod(item: Object) -> bool:
    pod = _read(slim_pod, item)
    _read(lambda found: release_patch(found, "node-1"), item)
    _read(lambda found: changes(mapping(mapping(found.get("metadata")).get("annotations")), {}), item)
    if pod is None:
        return False
    world = World()
    world.nodes.pod_changed(None, pod)
    world.ledger.pod_changed(None, pod)
    if pod.detail is not None and pod.detail.identity is not None:
        world.ledger.judge(pod.uid, pod, judge_volumes(pod.detail, pod.detail.options, {}, {}))
    world.tell()
    world.nodes.pod_changed(pod, None)
    world.ledger.pod_changed(pod, None)
    world.tell()
    return True


def _owner(item: Object) -> bool:
    kind = item.get("kind")
    if not isinstance(kind, str) or kind not in OWNER_RESOURCES:
        kind = "Job"
    owner = _read(OWNER_RESOURCES[kind][1], item)
    for wish in (JobWish(suspended=True, mark="m"), JobWish(workers=3, scaled="2:3")):
        _read(lambda found, wish=wish: job_patch(kind, found, wish), item)
    if owner is None:
        return False
    world = World()
    world.ledger.owner_changed(None, owner)
    world.tell()
    world.ledger.fix(owner)
    world.tell()
    world.ledger.owner_changed(owner, None)
    world.tell()
    return True


def _node(item: Object) -> bool:
    node = _read(slim_node, item)
    if node is None:
        return False
    world = World()
    world.nodes.node_changed(None, node)
    world.tell()
    return True


def _volume(item: Object) -> bool:
    return _read(slim_claim, item) is not None and _read(slim_volume, item) is not None


def _devices(item: Object) -> bool:
    part, claim = _read(device_taints.slim_slice, item), _read(device_taints.slim_claim, item)
    rule = _read(device_taints.slim_rule, item)
    if part is None or claim is None or rule is None:
        return False
    book = DeviceBook()
    for changed, seen in (
        (book.slice_changed, part),
        (book.rule_changed, rule),
        (book.claim_changed, claim),
    ):
        changed(None, seen)
        book.list_announced()
    book.slice_changed(part, None)
    return True


def _record(item: Object) -> bool:
    progress, _ = _read(read_progress, item) or (None, ())
    migration, _ = _read(read_migration, item) or (None, ())
    job, _ = _read(read_training_job, item) or (None, ())
    seen, pinned = _read(glance, item), _read(job_glance, item)
    restored = restore(
        () if progress is None else (progress,),
        () if migration is None else (migration,),
        _DECISIONS,
        10.0,
        recorded=() if job is None else (job,),
    )
    step(restored.state, _begun(), 20.0)
    pins_of([] if seen is None else [seen])
    job_pins_of([] if pinned is None else [pinned])
    return migration is not None and seen is not None and pinned is not None


def _begun() -> ManagerStarted:
    return ManagerStarted("fuzz", _DECISIONS)


def _read(reader: Callable[[Any], Any], item: Object) -> Any:
    """Return what a reader returns; None for what it raises, as its guard would have it."""
    try:
        return reader(item)
    except (RefusedError, ValueError):
        return None
    except Exception:  # noqa: BLE001  (its guard does the same)
        unreadable.append(reader)
        return None


unreadable: list[Any] = []
"""Readers that raised."""

_CHECKS: Final[Mapping[str, Callable[[Object], bool]]] = {
    "review": _review,
    "pod": _pod,
    "owner": _owner,
    "node": _node,
    "volume": _volume,
    "devices": _devices,
    "record": _record,
    "queue": lambda item: _read(queue_info, item) is not None,
    "budget": lambda item: _read(lambda found: objections([found], [found], {}), item) is not None,
    "lease": lambda item: _read(lambda found: (pause_reason(found),), item) is not None,
    "webhooks": lambda item: _read(webhook_namespaces, item) is not None,
}
