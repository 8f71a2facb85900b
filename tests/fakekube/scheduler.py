"""A scheduler: fit, selectors, required affinity, taints, volumes, gates, and preemption by priority."""

from fakekube import selectors
from fakekube.kinds import NODES, PODS, PVCS, PVS, Object
from fakekube.machinery import Machinery
from fakekube.quantities import Amounts, add, amounts, requested
from fakekube.subresources import bind

_TERMINAL = {"Succeeded", "Failed"}
_HARD = {"NoSchedule", "NoExecute"}


class Scheduler:
    """Gives each pod that waits the emptiest node that may take it; says why where there is none."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self.running = True
        self._taken: dict[str, Amounts] = {}
        self._asked: dict[str, tuple[Object, Amounts]] = {}
        self._room: dict[str, Amounts] = {}

    async def act(self) -> None:
        if not self.running:
            return
        waiting = [pod for pod in self._store.all(PODS) if _waits(pod)]
        if waiting:
            self._count_taken()
        for pod in sorted(waiting, key=lambda pod: (-pod["spec"].get("priority", 0), pod["metadata"]["uid"])):
            await self._place(pod)

    async def _place(self, pod: Object) -> None:
        reasons: dict[str, int] = {}
        fitting = []
        nodes = self._store.all(NODES)
        for node in nodes:
            why = self.refusal(pod, node)
            if why:
                reasons[why] = reasons.get(why, 0) + 1
            else:
                fitting.append(node)
        if fitting:
            best = min(fitting, key=lambda node: (self._load(node), node["metadata"]["name"]))
            metadata = pod["metadata"]
            name = best["metadata"]["name"]
            await bind(self._machinery, metadata["namespace"], metadata["name"], name)
            self._taken[name] = add(self._taken.get(name, {}), requested(pod))
            return
        told = ", ".join(f"{number} {why}" for why, number in sorted(reasons.items()))
        message = f"0/{len(nodes)} nodes are available: {told}."
        await self._machinery.set_condition(PODS, pod, "PodScheduled", "False", "Unschedulable", message)
        await self._preempt(pod, nodes)

    def refusal(self, pod: Object, node: Object, without: frozenset[str] = frozenset()) -> str:
        """Return why a node may not take a pod, as the scheduler words it; empty where it may."""
        spec, labels = pod["spec"], node["metadata"].get("labels") or {}
        if any(not _tolerated(spec, taint) for taint in _taints(node)):
            return "node(s) had untolerated taint(s)"
        if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
            return "node(s) didn't match Pod's node affinity/selector"
        required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        if required and not _fits_terms(required["nodeSelectorTerms"], node):
            return "node(s) didn't match Pod's node affinity/selector"
        volumes = self._volumes(pod, node)
        if volumes:
            return volumes
        free = self.free(node, without)
        short = sorted(
            name for name, number in self._asks(pod).items() if number > free.get(name, 0.0) + 1e-9
        )
        if short:
            return "Too many pods" if short == ["pods"] else f"Insufficient {short[0]}"
        return ""

    def free(self, node: Object, without: frozenset[str] = frozenset()) -> Amounts:
        """Return what nobody has asked for on a node."""
        name = node["metadata"]["name"]
        room = self._room[name]
        if without:
            kept = [pod for pod in self._of(name) if pod["metadata"]["uid"] not in without]
            taken = add(*map(requested, kept))
        else:
            taken = self._taken.get(name, {})
        return {resource: number - taken.get(resource, 0.0) for resource, number in room.items()}

    def _asks(self, pod: Object) -> Amounts:
        uid = pod["metadata"]["uid"]
        known = self._asked.get(uid)
        if known is None or known[0] is not pod["spec"]:  # what is stored is never changed in place
            known = self._asked[uid] = pod["spec"], requested(pod)
        return known[1]

    def _of(self, node: str) -> list[Object]:
        return [
            pod
            for pod in self._store.all(PODS)
            if pod["spec"].get("nodeName") == node and pod.get("status", {}).get("phase") not in _TERMINAL
        ]

    def _count_taken(self) -> None:
        """Sum up once per round what each node is asked for: the pods are many."""
        self._taken = {}
        self._room = {
            node["metadata"]["name"]: amounts((node.get("status") or {}).get("allocatable"))
            for node in self._store.all(NODES)
        }
        pods = self._store.all(PODS)
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if node and pod.get("status", {}).get("phase") not in _TERMINAL:
                self._taken[node] = add(self._taken.get(node, {}), self._asks(pod))
        if len(self._asked) > 2 * len(pods):
            self._asked = {}

    def _load(self, node: Object) -> float:
        room, free = self._room[node["metadata"]["name"]], self.free(node)
        return max((1 - free[name] / room[name] for name in room if room[name]), default=0.0)

    def _volumes(self, pod: Object, node: Object) -> str:
        for volume in pod["spec"].get("volumes") or []:
            claimed = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if not claimed:
                continue
            claim = self._store.get(PVCS, (pod["metadata"]["namespace"], claimed))
            if claim is None:
                return f'persistentvolumeclaim "{claimed}" not found'
            bound = self._store.get(PVS, ("", claim["spec"].get("volumeName", "")))
            if bound is None:
                return "pod has unbound immediate PersistentVolumeClaims"
            required = (bound["spec"].get("nodeAffinity") or {}).get("required")
            if required and not _fits_terms(required["nodeSelectorTerms"], node):
                return "node(s) had volume node affinity conflict"
        return ""

    async def _preempt(self, pod: Object, nodes: list[Object]) -> None:
        """Make room by removing pods of lower priority, as few of them as one node needs."""
        priority = pod["spec"].get("priority", 0)
        if pod["spec"].get("preemptionPolicy") == "Never":
            return
        for node in nodes:
            name = node["metadata"]["name"]
            lower = [other for other in self._of(name) if other["spec"].get("priority", 0) < priority]
            if not lower or self.refusal(pod, node, frozenset(v["metadata"]["uid"] for v in lower)):
                continue
            gone: frozenset[str] = frozenset()
            for victim in sorted(
                lower, key=lambda other: (other["spec"].get("priority", 0), other["metadata"]["name"])
            ):
                if not self.refusal(pod, node, gone):
                    break
                gone |= {victim["metadata"]["uid"]}
                await self._end(victim)
            return

    async def _end(self, victim: Object) -> None:
        if victim["metadata"].get("deletionTimestamp"):
            return
        told = "preempting to accommodate a higher priority pod"
        await self._machinery.set_condition(
            PODS, victim, "DisruptionTarget", "True", "PreemptionByScheduler", told
        )
        await self._machinery.delete(PODS, (victim["metadata"]["namespace"], victim["metadata"]["name"]))


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
        and spec.get("schedulerName", "default-scheduler") == "default-scheduler"
    )


def _taints(node: Object) -> list[Object]:
    taints = list(node["spec"].get("taints") or [])
    if node["spec"].get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    ready = next(
        (entry["status"] for entry in node["status"].get("conditions") or [] if entry["type"] == "Ready"),
        "True",
    )
    if ready != "True":
        word = "unreachable" if ready == "Unknown" else "not-ready"
        taints.append({"key": f"node.kubernetes.io/{word}", "effect": "NoSchedule"})
    return [taint for taint in taints if taint["effect"] in _HARD]


def _tolerated(spec: Object, taint: Object) -> bool:
    for entry in spec.get("tolerations") or []:
        if entry.get("effect") not in {None, "", taint["effect"]}:
            continue
        if entry.get("operator") == "Exists":
            if entry.get("key") in {None, "", taint["key"]}:
                return True
        elif entry.get("key") == taint["key"] and entry.get("value", "") == taint.get("value", ""):
            return True
    return False


def _fits_terms(terms: list[Object], node: Object) -> bool:
    """Return whether one of the terms holds; within a term everything has to."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    return any(
        all(selectors.expression(term, labels) for term in each.get("matchExpressions") or [])
        and all(selectors.expression(term, fields) for term in each.get("matchFields") or [])
        and bool(each.get("matchExpressions") or each.get("matchFields"))
        for each in terms
    )
