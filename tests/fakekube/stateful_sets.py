"""The StatefulSet controller: pods with fixed names, one after the other or all at once."""

from fakekube import owned
from fakekube.failures import FailureError
from fakekube.kinds import PODS, STATEFUL_SETS, Object
from fakekube.machinery import Machinery


class StatefulSetController:
    """A pod that is gone or has ended is made again under its name."""

    def __init__(self, machinery: Machinery) -> None:
        self._machinery = machinery
        self._store = machinery.store

    async def act(self) -> None:
        for value in self._store.all(STATEFUL_SETS):
            if not value["metadata"].get("deletionTimestamp"):
                await self._reconcile(value)

    async def _reconcile(self, value: Object) -> None:
        spec, name = value["spec"], value["metadata"]["name"]
        pods = {pod["metadata"]["name"]: pod for pod in owned.of(self._store, PODS, value)}
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = [f"{name}-{number}" for number in range(first, first + spec["replicas"])]
        await self._scale_in([pod for pod in pods.values() if pod["metadata"]["name"] not in wanted])
        in_order = spec["podManagementPolicy"] == "OrderedReady"
        for number, pod_name in enumerate(wanted, start=first):
            pod = pods.get(pod_name)
            if pod is None:
                await self._make(value, pod_name, number)
            elif owned.phase(pod) in owned.TERMINAL:
                await owned.remove(self._machinery, [pod])
            if in_order and (pod is None or owned.phase(pod) != "Running" or owned.ends(pod)):
                break
        live = owned.of(self._store, PODS, value)
        ready = sum(1 for pod in live if owned.phase(pod) == "Running" and not owned.ends(pod))
        await self._machinery.set_status(
            STATEFUL_SETS,
            value,
            replicas=len(live),
            readyReplicas=ready or None,
            availableReplicas=ready,
            observedGeneration=value["metadata"].get("generation", 1),
        )

    async def _scale_in(self, pods: list[Object]) -> None:
        """Remove the highest ordinal; the next one when it is gone."""
        if pods and not any(owned.ends(pod) for pod in pods):
            last = max(pods, key=lambda pod: int(pod["metadata"]["name"].rsplit("-", 1)[1]))
            await owned.remove(self._machinery, [last])

    async def _make(self, value: Object, pod_name: str, number: int) -> None:
        name = value["metadata"]["name"]
        labels = {
            "statefulset.kubernetes.io/pod-name": pod_name,
            "apps.kubernetes.io/pod-index": str(number),
            "controller-revision-hash": f"{name}-1",
        }
        manifest = owned.child(
            STATEFUL_SETS, value, value["spec"]["template"], {"name": pod_name, "labels": labels}
        )
        manifest["spec"].setdefault("hostname", pod_name)
        for claim in value["spec"].get("volumeClaimTemplates") or []:
            word = claim["metadata"]["name"]
            source = {"name": word, "persistentVolumeClaim": {"claimName": f"{word}-{pod_name}"}}
            manifest["spec"].setdefault("volumes", []).append(source)
        try:
            await self._machinery.create(PODS, value["metadata"]["namespace"], manifest)
        except FailureError:
            return  # the name is still taken, or admission refused it: the next change brings another try
