"""Kueue's objects on an API server in memory, in virtual time; Workloads are held to their definition."""

import asyncio
import copy
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from fakekube import schemas
from specon_manager.backends.kube.transport.api import ApiError
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.transport.resources import Object, Resource

DEFINITIONS = schemas.read(Path(__file__).parents[2] / "fakekube" / "definitions")
Key = tuple[str, str]


class KueueApi:
    """What the manager asks of the server, for objects that need no more of it."""

    def __init__(self) -> None:
        self.reading = ReadGuard()
        self.objects: dict[str, dict[Key, Object]] = {}
        """By plural, then by namespace and name."""
        self.patches: list[tuple[str, Key]] = []
        """Who was patched, and where."""
        self._version = 0
        self._watches: dict[str, list[asyncio.Queue[tuple[str, Object]]]] = {}

    def put(self, plural: str, item: Object) -> None:
        """Create or replace an object, as its owner does."""
        if plural in DEFINITIONS:
            item, causes = DEFINITIONS[plural](None, item)
            assert not causes, causes
        self._version += 1
        metadata = item["metadata"]
        metadata["resourceVersion"] = str(self._version)
        known = self.objects.setdefault(plural, {})
        key = metadata.get("namespace", ""), metadata["name"]
        kind = "MODIFIED" if key in known else "ADDED"
        known[key] = item
        for watch in self._watches.get(plural, ()):
            watch.put_nowait((kind, copy.deepcopy(item)))

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete an object."""
        self._version += 1
        item = self.objects[plural].pop((namespace, name))
        item["metadata"]["resourceVersion"] = str(self._version)
        for watch in self._watches.get(plural, ()):
            watch.put_nowait(("DELETED", item))

    @property
    def version(self) -> str:
        """The resource version of the last change."""
        return str(self._version)

    async def serves(self, resource: Resource) -> bool:
        return resource.version == "v1beta2"

    async def pages(
        self, resource: Resource, *_: Any, **__: Any
    ) -> AsyncGenerator[tuple[list[Object], str], None]:
        yield copy.deepcopy(list(self.objects.get(resource.plural, {}).values())), str(self._version)

    async def watch(self, resource: Resource, *_: Any, **__: Any) -> AsyncGenerator[tuple[str, Object], None]:
        mine: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self._watches.setdefault(resource.plural, []).append(mine)
        while True:
            yield await mine.get()

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        body: Object,
        *,
        form: str,
        subresource: str = "",
    ) -> Object:
        assert (form, subresource) == ("merge", "status")
        found = copy.deepcopy(self.objects[resource.plural][namespace, name])
        about = body["metadata"]
        assert about["uid"] == found["metadata"]["uid"]
        if about["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has changed")
        found["status"].update(body["status"])
        self.put(resource.plural, found)
        self.patches.append((f"{resource.plural}/{subresource}", (namespace, name)))
        return found
