"""A bare client for contract tests: it shows every answer as it came, refusals too."""

import asyncio
import dataclasses
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_LONGEST = aiohttp.ClientTimeout(total=30)


@dataclasses.dataclass(frozen=True)
class Answer:
    """Status and body of one answer."""

    status: int
    body: dict[str, Any]

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]

    @property
    def uid(self) -> str:
        return self.body["metadata"]["uid"]

    @property
    def version(self) -> str:
        return self.body["metadata"]["resourceVersion"]

    @property
    def message(self) -> str:
        return self.body.get("message", "")

    @property
    def causes(self) -> list[str]:
        return [cause.get("reason", "") for cause in self.body.get("details", {}).get("causes", [])]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where an API server is, and how one is let in."""

    url: str
    tls: ssl.SSLContext | bool = True
    token: str = ""
    name: str = "fake"
    authority: Path | None = None
    """File with the certificate of its authority."""


class KubeClient:
    """Requests to one server, most of them in one namespace."""

    def __init__(self, endpoint: Endpoint, namespace: str) -> None:
        self.endpoint = endpoint
        self.namespace = namespace
        headers = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
        connector = aiohttp.TCPConnector(ssl=endpoint.tls)
        self._session = aiohttp.ClientSession(headers=headers, connector=connector, timeout=_LONGEST)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def path(self, resource: str, name: str = "", subresource: str = "") -> str:
        """Return the URL path of `pods`, `batch/v1/jobs` and the like in this namespace."""
        group, _, plural = resource.rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        parts = [root, "namespaces", self.namespace, plural, name, subresource]
        return "/".join(part for part in parts if part)

    async def ask(
        self, method: str, path: str, body: Any = None, *, form: str = "application/json", **query: str
    ) -> Answer:
        async with self._session.request(
            method,
            self.endpoint.url + path,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Content-Type": form},
            params=query,
        ) as response:
            read = await response.read()
            if response.content_type != "application/json":
                return Answer(response.status, {"message": read.decode()})
            return Answer(response.status, msgspec.json.decode(read))

    async def create(
        self, resource: str, body: Any, name: str = "", subresource: str = "", **query: str
    ) -> Answer:
        return await self.ask("POST", self.path(resource, name, subresource), body, **query)

    async def get(self, resource: str, name: str = "", **query: str) -> Answer:
        return await self.ask("GET", self.path(resource, name), **query)

    async def put(self, resource: str, body: Any, subresource: str = "") -> Answer:
        return await self.ask("PUT", self.path(resource, body["metadata"]["name"], subresource), body)

    async def patch(
        self, resource: str, name: str, body: Any, subresource: str = "", *, form: str = STRATEGIC
    ) -> Answer:
        return await self.ask("PATCH", self.path(resource, name, subresource), body, form=form)

    async def delete(self, resource: str, name: str, **options: Any) -> Answer:
        return await self.ask("DELETE", self.path(resource, name), options or None)

    async def evict(self, name: str, **options: Any) -> Answer:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": options,
        }
        return await self.create("pods", body, name, "eviction")

    async def watch(self, resource: str, count: int, **query: str) -> list[dict[str, Any]]:
        """Return the first events of a watch, fewer where it ends before."""
        asked = {"watch": "1", "timeoutSeconds": "10", **query}
        events: list[dict[str, Any]] = []
        async with self._session.get(self.endpoint.url + self.path(resource), params=asked) as response:
            if response.status != 200:
                return [{"type": "HTTP", "object": msgspec.json.decode(await response.read())}]
            async for line in response.content:
                events.append(msgspec.json.decode(line))
                if len(events) == count:
                    break
        return events

    async def eventually(
        self, look: Callable[[], Awaitable[Any]], *, seconds: float = 30.0, every: float = 0.1
    ) -> Any:
        """Return the first true result; AssertionError where there is none in time."""
        ends = asyncio.get_running_loop().time() + seconds
        while not (found := await look()):
            assert asyncio.get_running_loop().time() < ends, f"not within {seconds:g} s: {look.__name__}"
            await asyncio.sleep(every)
        return found
