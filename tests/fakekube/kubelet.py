"""All kubelets in one: pods of living nodes run, end when told to, and are gone when their time is over."""

from fakekube.clock import Clock
from fakekube.kinds import NODES, PODS, PVCS, Object
from fakekube.machinery import Machinery
from fakekube.store import clone, key_of

_TERMINAL = {"Succeeded", "Failed"}
_TERMINATED = 143


class Kubelet:
    """Moves pods on through their phases.

    `start_seconds` and `stop_seconds` are how long containers take to begin and to end (0: at once);
    `unpullable` are images that cannot be had; `held` are names of pods that stay in ContainerCreating;
    `deaf` are names of pods that do not end before their grace period is over.
    """

    def __init__(self, machinery: Machinery, clock: Clock) -> None:
        self._machinery = machinery
        self._store = machinery.store
        self._clock = clock
        self.start_seconds = 0.0
        self.stop_seconds = 0.0
        self.unpullable: set[str] = set()
        self.held: set[str] = set()
        self.deaf: set[str] = set()
        self.exit_codes: dict[str, int] = {}
        self._down: set[str] = set()
        self._since: dict[tuple[str, str], float] = {}

    async def act(self) -> None:
        for pod in self._store.all(PODS):
            node = pod["spec"].get("nodeName")
            if not node or node in self._down or self._store.get(NODES, ("", node)) is None:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                await self._end(pod)
            elif pod["status"].get("phase") == "Pending":
                await self._begin(pod)

    async def down(self, node: str) -> None:
        """Let a node be lost: nothing on it is heard of any more, its Ready condition becomes Unknown."""
        self._down.add(node)
        await self._ready(node, "Unknown", "NodeStatusUnknown")
        for pod in self._store.all(PODS):
            if pod["spec"].get("nodeName") == node:
                await self._machinery.set_condition(PODS, pod, "Ready", "False", "NodeNotReady")

    async def up(self, node: str) -> None:
        self._down.discard(node)
        await self._ready(node, "True", "KubeletReady")

    async def _ready(self, node: str, status: str, reason: str) -> None:
        value = self._machinery.read(NODES, "", node)
        await self._machinery.set_condition(NODES, value, "Ready", status, reason)

    async def complete(self, pod: Object, exit_code: int = 0) -> None:
        """Let the main containers of a pod end by themselves."""
        current = self._store.get(PODS, key_of(pod))
        assert current is not None, f"there is no pod {key_of(pod)}"
        policy = current["spec"]["restartPolicy"]
        if policy == "Always" or (policy == "OnFailure" and exit_code):
            await self._restarted(current, exit_code)
        else:
            await self._ended(current, exit_code)

    # -- phases ----------------------------------------------------------------------------------

    async def _begin(self, pod: Object) -> None:
        spec = pod["spec"]
        containers = [*(spec.get("initContainers") or []), *spec["containers"]]
        missing = next((item["image"] for item in containers if item["image"] in self.unpullable), None)
        if missing is not None:
            await self._waiting(pod, "ErrImagePull", f'failed to pull image "{missing}"')
        elif pod["metadata"]["name"] in self.held or self._attached_elsewhere(pod):
            await self._waiting(pod, "ContainerCreating", "")
        elif await self._over(pod, "start", self.start_seconds):
            await self._runs(pod)
        else:
            await self._waiting(pod, "ContainerCreating", "")

    def _attached_elsewhere(self, pod: Object) -> bool:
        """Return whether a ReadWriteOnce volume of the pod is still held by another node."""
        namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
        for name in _claims(pod):
            claim = self._store.get(PVCS, (namespace, name))
            if claim is None or "ReadWriteOnce" not in (claim["spec"].get("accessModes") or []):
                continue
            for other in self._store.all(PODS, namespace):
                elsewhere = other["spec"].get("nodeName") not in {None, node}
                if elsewhere and name in _claims(other) and other["status"].get("phase") not in _TERMINAL:
                    return True
        return False

    async def _waiting(self, pod: Object, reason: str, message: str) -> None:
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        statuses = [_container(item, state, ready=False) for item in pod["spec"]["containers"]]
        await self._machinery.set_status(PODS, pod, containerStatuses=statuses)

    async def _runs(self, pod: Object) -> None:
        moment = self._clock.text()
        running = {"running": {"startedAt": moment}}
        done = {
            "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}
        }
        spec = pod["spec"]
        inits = [
            _container(item, running if _sidecar(item) else done, ready=True)
            for item in spec.get("initContainers") or []
        ]
        pod = await self._machinery.set_status(
            PODS,
            pod,
            phase="Running",
            startTime=moment,
            hostIP="127.0.0.1",
            podIP="10.0.0.1",
            initContainerStatuses=inits or None,
            containerStatuses=[_container(item, running, ready=True) for item in spec["containers"]],
        )
        for condition in ("Initialized", "ContainersReady", "Ready"):
            await self._machinery.set_condition(PODS, pod, condition, "True")

    async def _ended(self, pod: Object, exit_code: int) -> None:
        """Let all containers end: the main ones with this code, native sidecars after them with 0."""
        moment = self._clock.text()

        def state(code: int) -> Object:
            reason = "Completed" if code == 0 else "Error"
            return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": moment}}

        spec = pod["spec"]
        inits = [_container(item, state(0), ready=False) for item in spec.get("initContainers") or []]
        pod = await self._machinery.set_status(
            PODS,
            pod,
            phase="Failed" if exit_code else "Succeeded",
            initContainerStatuses=inits or None,
            containerStatuses=[
                _container(item, state(exit_code), ready=False) for item in spec["containers"]
            ],
        )
        for condition in ("ContainersReady", "Ready"):
            reason = "PodFailed" if exit_code else "PodCompleted"
            await self._machinery.set_condition(PODS, pod, condition, "False", reason)

    async def _restarted(self, pod: Object, exit_code: int) -> None:
        statuses = clone(pod["status"]).get("containerStatuses") or []
        moment = self._clock.text()
        for status in statuses:
            status["restartCount"] += 1
            status["lastState"] = {"terminated": {"exitCode": exit_code, "finishedAt": moment}}
            status["state"] = {"running": {"startedAt": moment}}
        await self._machinery.set_status(PODS, pod, containerStatuses=statuses)

    async def _end(self, pod: Object) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if pod["status"].get("phase") not in _TERMINAL:
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            seconds = grace if name in self.deaf else min(self.stop_seconds, grace)
            if not await self._over(pod, "stop", seconds):
                return
            if pod["status"].get("phase") == "Running":
                await self._ended(pod, self.exit_codes.get(name, _TERMINATED))
            else:
                await self._machinery.set_status(PODS, pod, phase="Failed")
            return  # gone in the next round: a controller sees how it ended first
        for step in ("start", "stop"):
            self._since.pop((uid, step), None)
        if pod["metadata"].get("deletionGracePeriodSeconds") or not pod["metadata"].get("finalizers"):
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self._machinery.delete(PODS, key_of(pod), options)

    async def _over(self, pod: Object, step: str, seconds: float) -> bool:
        """Return whether so many seconds have passed since this was first asked."""
        if seconds <= 0:
            return True
        key = (pod["metadata"]["uid"], step)
        if key not in self._since:
            self._since[key] = self._clock.now()
            self._clock.after(seconds, self.act)
        return self._clock.now() >= self._since[key] + seconds


def _sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _container(container: Object, state: Object, *, ready: bool) -> Object:
    started = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "restartCount": 0,
        "ready": ready and (started or "terminated" in state),
        "started": started,
        "state": state,
    }


def _claims(pod: Object) -> set[str]:
    volumes = pod["spec"].get("volumes") or []
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in volumes
        if "persistentVolumeClaim" in volume
    }
