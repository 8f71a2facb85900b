"""The wish that an eviction is turned into: a Migration, whose name is the pod's UID. Pure.

Whichever manager writes it, and however often, there is one for each attempt.
"""

import re
from typing import Final

from specon_manager.backends.kube.interception.facts import PodFacts
from specon_manager.backends.kube.objects.names import Name
from specon_manager.backends.kube.records.migration_status import EVICTED_POD, LEAVES
from specon_manager.backends.kube.transport.resources import MIGRATIONS, Object

_UID: Final = re.compile(r"[0-9a-f-]{8,40}")
_LONGEST_USER: Final = 200


def wish_name(pod: PodFacts, attempt: int) -> Name | None:
    """Return where the wish is; None for a pod whose UID is none, which no API server has."""
    if _UID.fullmatch(pod.uid) is None:
        return None
    return Name(pod.namespace, f"evict-{pod.uid}" if attempt == 1 else f"evict-{pod.uid}-{attempt}")


def wish_object(pod: PodFacts, name: Name, user: str) -> Object:
    """Return the Migration: off its node, wherever the manager finds room."""
    who = "".join(sign if sign.isprintable() else "?" for sign in user[:_LONGEST_USER]) or "somebody"
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {
            "name": name.name,
            "annotations": {EVICTED_POD: f"{pod.name}/{pod.uid}", LEAVES: pod.node},
        },
        "spec": {"replica": pod.replica, "reason": f"{who} evicts {pod.name} from {pod.node}"},
    }
