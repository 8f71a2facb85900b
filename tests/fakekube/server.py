"""The HTTP face of the server: URLs to resources, verbs to machinery, refusals to Status objects."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from fakekube import discovery, failures, subresources
from fakekube.faults import Faults, failure_of
from fakekube.kinds import PODS, Kind, Object
from fakekube.listing import Watch, page, query_of
from fakekube.machinery import Machinery
from fakekube.tokens import Tokens
from fakekube.webhooks import Webhooks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_FORMS = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
}
_LIMIT = 3 * 1024 * 1024


class Server:
    """Answers requests until closed; may be away for a while."""

    def __init__(
        self, machinery: Machinery, tokens: Tokens, faults: Faults, kinds: list[Kind], webhooks: Webhooks
    ) -> None:
        self.machinery = machinery
        self.webhooks = webhooks
        self.tokens = tokens
        self.faults = faults
        self.kinds = kinds
        self.version = (1, 36)
        self.requests: list[tuple[str, str]] = []
        """Method and URL of every request, in order."""
        self.printed: dict[tuple[str, str], list[bytes]] = {}
        """What the containers of a pod printed, lines with their times, by namespace and name of the pod."""
        app = web.Application(client_max_size=_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        self._site: web.TCPSite | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listen; on the same port as before where there was one."""
        if self._runner.server is None:
            await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def go_away(self) -> None:
        """Refuse connections and cut those that are open, until `open`."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        self._abort()

    async def close(self) -> None:
        self._abort()
        await self._runner.cleanup()

    def _abort(self) -> None:
        self.faults.cut_watches()
        for connection in list(self._runner.server.connections if self._runner.server else []):
            if connection.transport is not None:
                connection.transport.abort()

    def bookmark(self) -> None:
        """Let every open watch that takes bookmarks send one."""
        for watch in self.faults.watches:
            watch.mark()

    # -- requests --------------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        fault = self.faults.hit(request.method, request.path_qs)
        try:
            self.faults.check_token(request.headers.get("Authorization", ""))
            if fault is not None:
                await asyncio.sleep(fault.seconds)
                if fault.status:
                    raise failure_of(fault)
                if fault.drop and not fault.carried_out:
                    return _hang_up(request)
            response = await self._dispatch(request)
        except failures.FailureError as error:
            retry = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
            response = _json(error.status(), error.code, retry)
        except discovery.UnknownPathError:
            response = web.Response(text="404 page not found\n", status=404)
        return _hang_up(request) if fault is not None and fault.drop else response

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        plain = discovery.answer(parts, self.kinds, self.version)
        if plain is not None and request.method == "GET":
            return plain if isinstance(plain, web.Response) else _json(plain)
        review = await self._review(request, parts)
        if review is not None:
            return review
        kind, namespace, name, subresource = discovery.resolve(parts, self.kinds)
        if not name:
            return await self._collection(request, kind, namespace)
        if subresource == "log" and request.method == "GET":
            return await self._log(request, (namespace, name))
        if subresource and request.method == "POST":
            path = (namespace, kind.plural, name, subresource)
            body = await _body(request)
            if subresource == "eviction":
                user = _user(request)
                await self.webhooks.review_eviction(namespace, name, body, user, dry_run=_dry(request))
            if (
                _dry(request) and subresource == "eviction"
            ):  # said in the address, it counts as said in the body
                body = {**body, "deleteOptions": {**(body.get("deleteOptions") or {}), "dryRun": ["All"]}}
            return _json(await subresources.post(self.machinery, self.tokens, path, body), 201)
        return await self._object(request, kind, (namespace, name), subresource)

    async def _log(self, request: web.Request, pod: tuple[str, str]) -> web.StreamResponse:
        """Stream what a pod printed since a time, and what it prints, until it is gone or has ended."""
        response = web.StreamResponse()
        await response.prepare(request)
        since, sent = request.query.get("sinceTime", "").encode(), 0
        while True:
            lines = self.printed.get(pod, [])
            for line in lines[sent:]:
                if line[:19] >= since[:19]:
                    await response.write(line)
            sent = len(lines)
            found = self.machinery.store.get(PODS, pod)
            if found is None or found["status"].get("phase") in {"Succeeded", "Failed"}:
                return response
            await asyncio.sleep(0.01)

    async def _review(self, request: web.Request, parts: list[str]) -> web.Response | None:
        answers: dict[str, Callable[[Object], Object]] = {
            "tokenreviews": self.tokens.review,
            "subjectaccessreviews": self.tokens.access,
            "selfsubjectreviews": lambda _: self.tokens.who(_user(request)),
        }
        found = answers.get(parts[-1]) if parts else None
        if found is None or request.method != "POST":
            return None
        return _json(found(await _body(request)), 201)

    async def _collection(self, request: web.Request, kind: Kind, namespace: str) -> web.StreamResponse:
        if request.method == "POST":
            body = await _body(request)
            made = await self.machinery.create(kind, namespace, body, dry_run=_dry(request))
            return _json(made, 201)
        query = query_of(kind, namespace, request)
        if request.method == "DELETE":
            return await self._delete_all(request, kind, page(self.machinery.store, kind, query))
        if request.method != "GET":
            raise _method(request)
        if request.query.get("watch") in {"1", "true"}:
            watch = Watch(self.machinery.store, self.faults, kind, query)
            with contextlib.suppress(ConnectionError):
                return await watch.run(request)
            return web.Response()
        return _json(page(self.machinery.store, kind, query))

    async def _delete_all(self, request: web.Request, kind: Kind, found: Object) -> web.Response:
        options = await _options(request)
        for value in found["items"]:
            key = (value["metadata"].get("namespace", ""), value["metadata"]["name"])
            with contextlib.suppress(failures.FailureError):
                await self.machinery.delete(kind, key, options)
        return _json(found)

    async def _object(
        self, request: web.Request, kind: Kind, key: tuple[str, str], subresource: str
    ) -> web.Response:
        if subresource not in discovery.subresources_of(kind):
            raise failures.FailureError(404, "NotFound", "the server could not find the requested resource")
        verbs: dict[str, Callable[[], Awaitable[Object]]] = {
            "GET": lambda: self._get(kind, key),
            "PUT": lambda: self._put(request, kind, key, subresource),
            "PATCH": lambda: self._patch(request, kind, key, subresource),
            "DELETE": lambda: self._delete(request, kind, key),
        }
        if request.method not in verbs:
            raise _method(request)
        return _json(await verbs[request.method]())

    async def _get(self, kind: Kind, key: tuple[str, str]) -> Object:
        return self.machinery.read(kind, *key)

    async def _put(self, request: web.Request, kind: Kind, key: tuple[str, str], subresource: str) -> Object:
        body = await _body(request)
        return await self.machinery.replace(kind, key, body, subresource=subresource, dry_run=_dry(request))

    async def _patch(
        self, request: web.Request, kind: Kind, key: tuple[str, str], subresource: str
    ) -> Object:
        form = _FORMS.get(request.content_type)
        if form is None:
            told = (
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, "
                "application/strategic-merge-patch+json, application/apply-patch+yaml"
            )
            raise failures.FailureError(415, "UnsupportedMediaType", told)
        body = await _decode(request)
        return await self.machinery.patch(
            kind, key, form, body, subresource=subresource, dry_run=_dry(request)
        )

    async def _delete(self, request: web.Request, kind: Kind, key: tuple[str, str]) -> Object:
        options = await _options(request)
        uid = self.machinery.read(kind, *key)["metadata"]["uid"]
        last = await self.machinery.delete(kind, key, options, dry_run=_dry(request))
        if kind.plural == "pods" or self.machinery.store.get(kind, key) is not None:
            return last
        details = {"name": key[1], "group": kind.group, "kind": kind.plural, "uid": uid}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _json(body: Object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json", headers=headers
    )


def _user(request: web.Request) -> str:
    """Return the user of a request: without impersonation it is the manager."""
    return request.headers.get("Impersonate-User", "fake")


def _dry(request: web.Request) -> bool:
    return request.query.get("dryRun") == "All"


def _method(request: web.Request) -> failures.FailureError:
    told = f"the server does not allow this method on the requested resource: {request.method}"
    return failures.FailureError(405, "MethodNotAllowed", told)


async def _decode(request: web.Request) -> object:
    try:
        return msgspec.json.decode(await request.read())
    except msgspec.DecodeError as error:
        raise failures.bad_request(f"error decoding the body: {error}") from error


async def _body(request: web.Request) -> Object:
    body = await _decode(request)
    if not isinstance(body, dict):
        raise failures.bad_request("the body is no object")
    return body


async def _options(request: web.Request) -> Object:
    """Return DeleteOptions from the body and the query."""
    options = await _body(request) if request.can_read_body else {}
    if "propagationPolicy" in request.query:
        options["propagationPolicy"] = request.query["propagationPolicy"]
    if "gracePeriodSeconds" in request.query:
        options["gracePeriodSeconds"] = int(request.query["gracePeriodSeconds"])
    return options
