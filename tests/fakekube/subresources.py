"""The URLs below a pod and a service account that are more than a part of the object."""

from fakekube import eviction, failures
from fakekube.kinds import PODS, Object
from fakekube.machinery import Machinery
from fakekube.store import clone
from fakekube.tokens import Tokens


async def post(machinery: Machinery, tokens: Tokens, path: tuple[str, str, str, str], body: Object) -> Object:
    """Answer a POST to namespace, resource, name and subresource; raises a 404 for what there is not."""
    namespace, plural, name, subresource = path
    if (plural, subresource) == ("pods", "eviction"):
        return await eviction.evict(machinery, namespace, name, body)
    if (plural, subresource) == ("pods", "binding"):
        return await bind(machinery, namespace, name, str((body.get("target") or {}).get("name", "")))
    if (plural, subresource) == ("serviceaccounts", "token"):
        return tokens.issue(namespace, name, body)
    raise failures.FailureError(404, "NotFound", "the server could not find the requested resource")


async def bind(machinery: Machinery, namespace: str, name: str, node: str) -> Object:
    """Give a pod its node, whatever its selectors and the node's room say, as the real server does."""
    pod = machinery.read(PODS, namespace, name)
    if pod["metadata"].get("deletionTimestamp"):
        raise failures.conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise failures.conflict(
            PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        )
    if pod["spec"].get("schedulingGates"):
        raise failures.conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")
    after = clone(pod)
    after["spec"]["nodeName"] = node
    machinery.store.put(PODS, after)
    await machinery.set_condition(PODS, after, "PodScheduled", "True")
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
