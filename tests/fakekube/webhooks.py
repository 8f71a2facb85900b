"""Calls the mutating webhooks that are registered, as the server does before it stores an object."""

import base64
import uuid
from collections.abc import Callable

import aiohttp
import msgspec

from fakekube import conditions, failures, patches, selectors, trust
from fakekube.kinds import MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS, Kind, Object
from fakekube.store import Store, clone

Predicate = Callable[[Object], bool]


class Webhooks:
    """Each matching webhook is called by its URL; `predicates` answer match conditions by their name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.predicates: dict[str, Predicate] = {}
        self.warnings: list[str] = []
        self.services: dict[tuple[str, str], str] = {}
        """Addresses (https://HOST:PORT) of services by namespace and name."""

    async def admit(self, kind: Kind, value: Object, operation: str) -> Object:
        """Return the object as the webhooks leave it; raises what they refuse."""
        if kind is MUTATING_WEBHOOKS:
            return value
        before = value
        hooks = self._matching(kind, value, operation)
        for hook in hooks:
            value = await self._call(hook, kind, value, operation)
        again = [hook for hook in hooks if hook.get("reinvocationPolicy") == "IfNeeded"]
        if value != before and len(hooks) > 1:
            for hook in again[:-1] if again and again[-1] is hooks[-1] else again:
                value = await self._call(hook, kind, value, operation)
        return value

    async def review_eviction(
        self, namespace: str, name: str, body: Object, user: str, *, dry_run: bool
    ) -> None:
        """Ask the validating webhooks of `pods/eviction`; raises what they refuse."""
        about = {"metadata": {"name": name, "namespace": namespace}}
        eviction = {**body, "metadata": {**(body.get("metadata") or {}), **about["metadata"]}}
        request: Object = {
            **_request(PODS, about, "CREATE"),
            "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "subResource": "eviction",
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "dryRun": dry_run,
            "object": eviction,
        }
        for configuration in self._store.all(VALIDATING_WEBHOOKS):
            for hook in configuration.get("webhooks") or []:
                rules = (resource for rule in hook.get("rules") or [] for resource in rule["resources"])
                values = {"object": eviction, "request": request}
                wanted = (
                    conditions.evaluate(each["expression"], values)
                    for each in hook.get("matchConditions") or []
                )
                if "pods/eviction" in rules and self._selected(hook, about) and all(wanted):
                    self._allowed(hook, await self._answer(hook, request))

    def _matching(self, kind: Kind, value: Object, operation: str) -> list[Object]:
        hooks = []
        for configuration in self._store.all(MUTATING_WEBHOOKS):
            hooks += [
                hook
                for hook in configuration.get("webhooks") or []
                if any(_rule(rule, kind, operation) for rule in hook.get("rules") or [])
                and self._selected(hook, value)
                and self._conditions(hook, kind, value, operation)
            ]
        return hooks

    def _selected(self, hook: Object, value: Object) -> bool:
        metadata = value["metadata"]
        labels = selectors.by_object(hook.get("objectSelector") or {})
        if not labels(metadata.get("labels") or {}):
            return False
        namespace = self._store.get(NAMESPACES, ("", metadata.get("namespace", "")))
        about = (namespace or {"metadata": {}})["metadata"].get("labels") or {}
        return selectors.by_object(hook.get("namespaceSelector") or {})(about)

    def _conditions(self, hook: Object, kind: Kind, value: Object, operation: str) -> bool:
        request = _request(kind, value, operation)
        for condition in hook.get("matchConditions") or []:
            predicate = self.predicates.get(condition["name"])
            if predicate is not None:
                if not predicate(value):
                    return False
            elif not conditions.evaluate(condition["expression"], {"object": value, "request": request}):
                return False
        return True

    async def _call(self, hook: Object, kind: Kind, value: Object, operation: str) -> Object:
        answer = await self._answer(hook, {**_request(kind, value, operation), "object": value})
        if answer is None:
            return value
        self._allowed(hook, answer)
        if not answer.get("patch"):
            return value
        operations = msgspec.json.decode(base64.b64decode(answer["patch"]))
        changed: Object = patches.json_patch(clone(value), operations)
        return changed

    async def _answer(self, hook: Object, request: Object) -> Object | None:
        """Return what a webhook answers; None where it does not, and that is to be ignored."""
        try:
            answer = await self._post(hook, request)
            if answer.get("uid") != request["uid"]:
                raise ValueError(f"expected response.uid {request['uid']!r}, got {answer.get('uid')!r}")  # noqa: TRY301  (a failed call like the others)
        except (
            aiohttp.ClientError,
            OSError,
            TimeoutError,
            ValueError,
            KeyError,
            msgspec.DecodeError,
        ) as error:
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return None
            told = f'failed calling webhook "{hook["name"]}": failed to call webhook: {error}'
            raise failures.FailureError(500, "InternalError", f"Internal error occurred: {told}") from error
        return answer

    def _allowed(self, hook: Object, answer: Object | None) -> None:
        """Take note of what it warns of, and raise what it refuses."""
        if answer is None:
            return
        self.warnings += answer.get("warnings") or []
        if not answer.get("allowed"):
            status = answer.get("status") or {}
            told = f'admission webhook "{hook["name"]}" denied the request: {status.get("message", "")}'
            raise failures.FailureError(status.get("code", 403), status.get("reason", "Forbidden"), told)

    async def _post(self, hook: Object, request: Object) -> Object:
        client = hook["clientConfig"]
        url, context = client.get("url"), trust.context_of(client.get("caBundle"))
        if url is None:
            service = client["service"]
            url = self.services[service["namespace"], service["name"]] + service.get("path", "")
        timeout = aiohttp.ClientTimeout(total=float(hook.get("timeoutSeconds", 10)))
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, json=body, ssl=context) as response,
        ):
            read = msgspec.json.decode(await response.read())
            if response.status != 200:
                raise ValueError(f"the server answered {response.status}")
            answer: Object = read["response"]
            return answer


def _rule(rule: Object, kind: Kind, operation: str) -> bool:
    def has(field: str, word: str) -> bool:
        return bool({"*", word} & set(rule.get(field) or []))

    scope = {"*": True, "Namespaced": kind.namespaced, "Cluster": not kind.namespaced}[rule.get("scope", "*")]
    return (
        scope
        and has("apiGroups", kind.group)
        and has("apiVersions", kind.version)
        and has("resources", kind.plural)
        and has("operations", operation)
    )


def _request(kind: Kind, value: Object, operation: str) -> Object:
    metadata = value["metadata"]
    meaning = {"group": kind.group, "version": kind.version}
    return {
        "uid": str(uuid.uuid4()),
        "kind": {**meaning, "kind": kind.name},
        "resource": {**meaning, "resource": kind.plural},
        "requestKind": {**meaning, "kind": kind.name},
        "requestResource": {**meaning, "resource": kind.plural},
        # A name that the server made is not told: it is given after admission.
        "name": "" if metadata.get("generateName") and operation == "CREATE" else metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "fake", "groups": ["system:authenticated"]},
        "oldObject": None,
        "dryRun": False,
    }
