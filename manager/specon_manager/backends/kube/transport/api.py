"""Calls to the API server: raw objects, one time limit per call, errors that tell the known facts."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import aiohttp

from specon_manager.backends.kube.transport.access import (
    USUAL_CONNECTIONS,
    Access,
    direct_access,
    is_in_cluster,
    kubeconfig_access,
    service_account_access,
)
from specon_manager.backends.kube.transport.call import (
    Call,
    decode_answer,
    event_in,
    honest,
    lines_of,
    text_of,
)
from specon_manager.backends.kube.transport.caller import CallSender, ObserveCall, Sleep
from specon_manager.backends.kube.transport.errors import (
    AnswerTooLargeError,
    ApiError,
    ApiUnavailableError,
)
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.transport.resources import PODS, Object, Resource

__all__ = ["Api", "ApiError", "ApiUnavailableError", "Object", "ObserveCall"]

MAX_PAGE_BYTES: Final = 64 << 20
MAX_TEXT_BYTES: Final = 4 << 20
_NO_QUERY: Final[Mapping[str, str | int]] = MappingProxyType({})
PAGE_OBJECTS: Final = 250
"""A page of so many pods is read in some 50 ms, for which nothing else has its turn."""
_LIST_STARTS: Final = 3
_EVENTS_AT_ONCE: Final = 100  # events of a watch between two turns of the loop
# The server tries an eviction of a pod with another uid, or one that changes at that moment, twenty times in
# ten seconds before it says no.
_EVICTION_SECONDS: Final = 25.0

Objects = list[Object]
Form = Literal["merge", "json", "strategic"]
_CONTENT_TYPES: Final[Mapping[Form, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}


class Api:
    """One API server. Every call raises ApiError (it said no) or ApiUnavailableError (nobody knows).

    Only reading is tried again, within the time limit of the call; a change whose outcome is unknown is the
    caller's to look into. Credentials that are refused are read again once: such a request was not looked at.
    """

    def __init__(
        self,
        server: str = "",
        token: str = "",
        *,
        access: Access | None = None,
        seconds: float = 10.0,
        page_seconds: float = 30.0,
        observe: ObserveCall | None = None,
        rng: random.Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Speak to `server` (a URL) with `token`, or by `access`; `seconds` is the limit of one call."""
        self._caller = CallSender(
            access or direct_access(server, token), seconds=seconds, observe=observe, rng=rng, sleep=sleep
        )
        self._seconds = seconds
        self._page_seconds = page_seconds
        self.reading = ReadGuard()
        """Guards the readers of the objects that come from here."""

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        seconds: float = 10.0,
        observe: ObserveCall | None = None,
        connections: int = USUAL_CONNECTIONS,
    ) -> Self:
        """Return the API of the cluster in which this pod runs, else of a kubeconfig, which may be named.

        So many requests may be on their way at once; others wait for their end.
        """
        if kubeconfig is None and context is None and is_in_cluster():
            access = await service_account_access(connections=connections)
        else:
            access = await kubeconfig_access(kubeconfig, context, connections=connections)
        return cls(access=access, seconds=seconds, observe=observe)

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, subresource: str = ""
    ) -> Object:
        """Return an object."""
        path = resource.path(namespace, name, subresource)
        call = Call(verb="get", resource=resource.plural, method="GET", path=path)
        return await self._caller.fetch_object(call)

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> tuple[Objects, str]:
        """Return all objects of one moment and its resourceVersion; items have no kind and no apiVersion."""
        for start in range(1, _LIST_STARTS + 1):
            items: Objects = []
            version = ""
            try:
                async for page, at in self.pages(
                    resource, namespace, label_selector=label_selector, field_selector=field_selector
                ):
                    items += page
                    version = at
            except ApiError as error:
                if not error.expired or start == _LIST_STARTS:
                    raise
            else:
                return items, version
        raise AssertionError("the last start returns or raises")

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_OBJECTS,
    ) -> AsyncGenerator[tuple[Objects, str], None]:
        """Yield the objects of one moment in pages of at most `limit`, each with its resourceVersion.

        Pages that are too large to be read are asked for by halves. Raises ApiError, `expired`, when paging
        took longer than the server keeps that moment.
        """
        rest = ""
        while True:
            call = Call(
                verb="list",
                resource=resource.plural,
                method="GET",
                path=resource.path(namespace),
                query={
                    "limit": limit,
                    "continue": rest,
                    "labelSelector": label_selector,
                    "fieldSelector": field_selector,
                },
                max_bytes=MAX_PAGE_BYTES,
            )
            try:
                page = await self._caller.fetch_object(call, self._page_seconds)
            except AnswerTooLargeError:
                if limit == 1:
                    raise
                limit //= 2
                continue
            metadata = page.get("metadata") or {}
            yield page.get("items") or [], metadata.get("resourceVersion", "")
            rest = metadata.get("continue", "")
            if not rest:
                return

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        seconds: float = 300.0,
        silence_seconds: float | None = None,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Yield what happens after `resource_version` as (type, object), bookmarks too.

        Ends when the server ends it, after about `seconds`. Raises ApiError for an ERROR event (`expired`:
        list again), and ApiUnavailableError when the connection breaks or nothing, not even a bookmark, comes
        for `silence_seconds` (None: ten seconds more than `seconds`).
        """
        call = Call(
            verb="watch",
            resource=resource.plural,
            method="GET",
            path=resource.path(namespace),
            query={
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "timeoutSeconds": max(1, round(seconds)),
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
            },
        )
        silence = seconds + 10.0 if silence_seconds is None else silence_seconds
        async with self._caller.open_answer(call, self._seconds) as response:
            if response.status != 200:  # noqa: PLR2004
                async with honest(call, asyncio.timeout(self._seconds)):
                    await decode_answer(call, response)
            count = 0
            async for line in lines_of(call, response, silence):
                yield event_in(call, line)
                count += 1
                if count % _EVENTS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def create(
        self, resource: Resource, body: Object, namespace: str | None = None, *, dry_run: bool = False
    ) -> Object:
        """Create an object and return it as the server has it."""
        if resource.namespaced and namespace is None:
            raise ValueError(f"{resource.plural} are created in a namespace, and none is given")
        call = Call(
            verb="create",
            resource=resource.plural,
            method="POST",
            path=resource.path(namespace),
            query=_dry(dry_run),
            body=body,
        )
        return await self._caller.fetch_object(call)

    async def replace(
        self,
        resource: Resource,
        body: Object,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Object:
        """Replace an object; a `conflict` where `body` has a resourceVersion that is not the latest."""
        call = Call(
            verb="update",
            resource=resource.plural,
            method="PUT",
            path=resource.path(namespace, name, subresource),
            body=body,
        )
        return await self._caller.fetch_object(call)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str | None,
        body: Any,
        *,
        form: Form,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Change an object; `body` is a list of operations for `json`, else a partial object.

        Custom resources know no `strategic`.
        """
        call = Call(
            verb="patch",
            resource=resource.plural,
            method="PATCH",
            path=resource.path(namespace, name, subresource),
            query=_dry(dry_run),
            body=body,
            content_type=_CONTENT_TYPES[form],
        )
        return await self._caller.fetch_object(call)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: float | None = None,
        propagation: Literal["Orphan", "Background", "Foreground"] | None = None,
    ) -> None:
        """Delete an object; a `conflict` where it has another uid or another resourceVersion."""
        options = _delete_options(uid, grace_seconds, resource_version)
        if propagation is not None:
            options["propagationPolicy"] = propagation
        call = Call(
            verb="delete",
            resource=resource.plural,
            method="DELETE",
            path=resource.path(namespace, name),
            body=options,
        )
        await self._caller.fetch_object(call)

    async def evict(
        self,
        name: str,
        namespace: str,
        *,
        uid: str | None = None,
        grace_seconds: float | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the end of a pod; `blocked` by a PodDisruptionBudget, a `conflict` if it has another uid.

        Returns once the end has begun. `grace_seconds` may be longer than the pod's own. The server takes ten
        seconds to say that the uid is another.
        """
        call = Call(
            verb="evict",
            resource="pods",
            method="POST",
            path=PODS.path(namespace, name, "eviction"),
            query=_dry(dry_run),
            body={
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": name, "namespace": namespace},
                "deleteOptions": _delete_options(uid, grace_seconds),
            },
        )
        await self._caller.fetch_object(call, max(self._seconds, _EVICTION_SECONDS))

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has that resource; raises ApiUnavailableError where an extension is down."""
        call = Call(verb="discover", resource=resource.plural, method="GET", path=resource.root)
        try:
            found = await self._caller.fetch_object(call)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        return any(each.get("name") == resource.plural for each in found.get("resources") or ())

    async def text(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        subresource: str,
        query: Mapping[str, str | int] = _NO_QUERY,
        max_bytes: int = MAX_TEXT_BYTES,
    ) -> str:
        """Return an answer that is no object, such as the log of a pod; no more of it than `max_bytes`."""
        call = Call(
            verb="get",
            resource=resource.plural,
            method="GET",
            path=resource.path(namespace, name, subresource),
            query=query,
            max_bytes=max_bytes,
        )
        async with (
            self._caller.open_answer(call, self._page_seconds) as response,
            honest(call, asyncio.timeout(self._page_seconds)),
        ):
            return await text_of(call, response)

    @contextlib.asynccontextmanager
    async def output(
        self, pod: str, namespace: str, *, query: Mapping[str, str | int]
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Give the log of a container as it is written; reading it raises what aiohttp raises.

        Each takes a connection for as long as it is open.
        """
        call = Call(
            verb="get",
            resource="pods/log",
            method="GET",
            path=PODS.path(namespace, pod, "log"),
            query={**query, "follow": "true"},
        )
        async with self._caller.open_stream(call, self._seconds) as response:
            yield response.content

    async def version(self) -> tuple[int, int]:
        """Return the version of the server, major and minor."""
        call = Call(verb="discover", resource="version", method="GET", path="/version")
        found = await self._caller.fetch_object(call)
        try:
            return _number(found["major"]), _number(found["minor"])
        except (KeyError, ValueError) as error:
            raise ApiUnavailableError(f"{call}: major and minor are not numbers: {found}") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._caller.close()


def _delete_options(
    uid: str | None, grace_seconds: float | None, resource_version: str | None = None
) -> Object:
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
    wanted = {"uid": uid, "resourceVersion": resource_version}
    conditions = {name: value for name, value in wanted.items() if value is not None}
    if conditions:
        options["preconditions"] = conditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = max(0, round(grace_seconds))
    return options


def _dry(dry_run: bool) -> Mapping[str, str | int]:  # noqa: FBT001  (a private shorthand)
    return {"dryRun": "All"} if dry_run else {}


def _number(text: str) -> int:
    """Return the number that a part of a version begins with: `30+` is 30."""
    digits = "".join(char for char in str(text) if char.isdigit())
    return int(digits)
