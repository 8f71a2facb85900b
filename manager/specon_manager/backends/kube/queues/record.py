"""A queue as its TrainingQueue has it, and the status written into it. Pure.

The definition refuses what cannot be read; objects that are older than the definition may still have it.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from specon_manager.backends.kube.objects.quantities import quantity
from specon_manager.backends.kube.records.decoding import cut_text
from specon_manager.backends.kube.records.records import part_of
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.core.queue_use import QueueUse
from specon_manager.model.queues import Queue
from specon_manager.model.resources import Resources

_MOST: Final = 1e15
"""As much as `Resources` allows: no limit."""
_NAMES: Final = ("cpu", "memory", "gpu")
_SHOWN: Final = 40
_STEPS: Final = (("Ti", 2.0**40), ("Gi", 2.0**30), ("Mi", 2.0**20))


class QueueInfo(Struct, frozen=True, kw_only=True):
    """The kept facts of a TrainingQueue."""

    uid: str
    queue: Queue
    """What cannot be read counts as nothing here."""
    selector: Mapping[str, Any] | None = None
    """The LabelSelector of the namespaces whose jobs it takes; None: those of all."""
    share: float | None = None
    """How many times its quota it has used over time, as a manager wrote it down; None where none has."""
    problems: tuple[str, ...] = ()
    """Fields that cannot be read, with their values."""


def queue_info(item: Object) -> QueueInfo:
    """Return what a TrainingQueue says; it raises nothing, whatever that is."""
    metadata, spec = part_of(item, "metadata"), part_of(item, "spec")
    problems: list[str] = []
    quota = _amounts(spec.get("quota"), "spec.quota", problems, missing=dict.fromkeys(_NAMES, 0.0))
    named = part_of(spec, "quota")
    problems += [f"spec.quota.{name}: is missing" for name in ("cpu", "memory") if name not in named]
    limit = None
    if spec.get("limit") is not None:
        limit = _amounts(spec["limit"], "spec.limit", problems, missing=dict.fromkeys(_NAMES, _MOST))
    selector = spec.get("namespaceSelector")
    if selector is not None and not isinstance(selector, dict):
        problems.append(f"spec.namespaceSelector: {_show(selector)} is no selector of labels")
        selector = {"matchExpressions": [{"operator": "none"}]}
    queue = Queue(
        name=str(metadata.get("name") or ""),
        quota=quota,
        borrow=_switch(spec, "borrow", problems),
        limit=limit,
        # The backend knows the namespaces, and says which these are.
        namespaces=None if selector is None else (),
        allow_trials=_switch(spec, "allowTrials", problems),
        max_utility=_utility(spec.get("maxUtility"), problems),
    )
    uid = str(metadata.get("uid") or "")
    return QueueInfo(
        uid=uid,
        queue=queue,
        selector=selector,
        share=_share(part_of(item, "status").get("share")),
        problems=tuple(problems),
    )


def _share(given: object) -> float | None:
    if not isinstance(given, str):
        return None
    try:
        found = float(given)
    except ValueError:
        return None
    return found if 0 <= found <= _MOST else None


def _switch(spec: Mapping[str, Any], name: str, problems: list[str]) -> bool:
    given = spec.get(name, True)
    if isinstance(given, bool):
        return given
    problems.append(f"spec.{name}: {_show(given)} is neither true nor false")
    return False


def _utility(given: object, problems: list[str]) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= _MOST:
        return float(given)
    problems.append(f"spec.maxUtility: {_show(given)} is no number from 0 to {_MOST:g}")
    return 0.0


def _amounts(given: object, place: str, problems: list[str], *, missing: Mapping[str, float]) -> Resources:
    if not isinstance(given, dict):
        if given is not None:
            problems.append(f"{place}: {_show(given)} is no list of amounts")
        given = {}
    found = dict(missing)
    for name in _NAMES:
        if given.get(name) is None:
            continue
        found[name] = 0.0
        try:
            amount = quantity(str(given[name]))
        except ValueError:
            problems.append(f"{place}.{name}: {_show(given[name])} is no quantity")
            continue
        if amount < 0:
            problems.append(f"{place}.{name}: {_show(given[name])} is negative")
            continue
        found[name] = min(amount, _MOST)
    return Resources(**found)


def queue_status(use: QueueUse, message: str, manager: str) -> dict[str, Any]:
    """Return the status of a TrainingQueue, without its time; a null takes away what stood there."""
    return {
        "running": use.running,
        "waiting": use.waiting,
        "share": "" if use.share is None else f"{use.share:.2f}",
        "use": {name: format_amount(name, getattr(use.used, name)) for name in _NAMES},
        "message": cut_text(message),
        "manager": manager[:253],
    }


def format_amount(name: str, amount: float) -> str:
    """Return the amount as people write it: parts of CPUs in thousandths, memory in Gi or the like."""
    if name == "memory":
        for unit, size in _STEPS:
            if amount >= size and (amount / size).is_integer():
                return f"{amount / size:.0f}{unit}"
        return f"{amount:.0f}"
    return f"{amount:.0f}" if float(amount).is_integer() else f"{round(amount * 1000)}m"


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
