"""The webhook: routes that answer AdmissionReviews, and the configuration by which they are called."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from specon_manager.backends.kube.admission.injection import InjectionSettings
from specon_manager.backends.kube.admission.review import NoReviewError, ReviewEntry
from specon_manager.backends.kube.admission.reviews import BusyError, Reviews, TooLargeError
from specon_manager.backends.kube.objects.annotation_keys import INJECT, QUEUE
from specon_manager.backends.kube.transport.resources import Object

ReviewObserver = Callable[[str, str], None]
"""Told of each answer: the entry, and `allowed`, `patched`, `denied` or `unreadable`."""

PATHS: Final[Mapping[ReviewEntry, str]] = {"inject": "/v1/admission/inject", "gate": "/v1/admission/gate"}
_BODY_SECONDS: Final = 10.0  # the API server gives up after 5
_ASKED: Final = (
    f"'{INJECT}' in object.metadata.annotations && object.metadata.annotations['{INJECT}'] != 'false'"
)
_log = logging.getLogger(__name__)


def webhook_routes(
    settings: Callable[[], InjectionSettings | None],
    pins: Callable[[], Mapping[str, str]],
    observer: ReviewObserver | None = None,
    *,
    arriving: Callable[[], Collection[str]] = tuple,
    known: Callable[[], Awaitable[object]] | None = None,
    seconds: float = _BODY_SECONDS,
) -> list[web.RouteDef]:
    """Return the routes. Each review asks for the settings and the pins (replica -> hostname label).

    It also asks for the replicas whose next pod a move awaits.

    Without settings pods pass unchanged. `known` waits until the pins are known, but not for long.

    A review has to arrive within so many seconds.
    """
    reviews = Reviews()

    def handler(entry: ReviewEntry) -> Callable[[web.Request], Any]:
        async def answered(request: web.Request) -> web.Response:
            try:
                async with asyncio.timeout(seconds):
                    body = await reviews.read(request.content.iter_any())
                    if known is not None:
                        await known()
                response = await reviews.judge(body, settings(), pins(), entry, arriving())
            except NoReviewError as error:
                _tell(observer, entry, "unreadable")
                return web.json_response({"error": str(error)}, status=400)
            except TimeoutError:
                _tell(observer, entry, "unreadable")
                late = web.json_response({"error": f"no whole review within {seconds:g} seconds"}, status=408)
                late.force_close()
                return late
            except TooLargeError as error:
                _tell(observer, entry, "unreadable")
                return web.json_response({"error": str(error)}, status=413)
            except BusyError as error:
                _tell(observer, entry, "unreadable")
                return web.json_response({"error": str(error)}, status=503)
            said = response["response"]
            outcome = "denied" if not said["allowed"] else "patched" if "patch" in said else "allowed"
            if outcome == "denied":
                _log.info("%s: denied: %.300s", entry, said["status"]["message"])
            _tell(observer, entry, outcome)
            return web.Response(body=msgspec.json.encode(response), content_type="application/json")

        return answered

    return [web.post(path, handler(entry)) for entry, path in PATHS.items()]


class WebhookSettings(Struct, frozen=True, kw_only=True):
    """How the API server is to call us."""

    name: str
    """Of the MutatingWebhookConfiguration."""
    namespace: str
    """Of the manager, whose own pods are never looked at."""
    service: str
    port: Annotated[int, Meta(ge=1, le=65535)] = 443
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    """Of the entry `inject`: what becomes of annotated pods while nobody answers."""
    url: str | None = None
    """Base URL instead of the service, for a manager that is not in the cluster."""


def webhook_configuration(settings: WebhookSettings, ca_bundle: bytes | str | None) -> Object:
    """Return the whole MutatingWebhookConfiguration; `ca_bundle` is PEM in base64, None leaves it out."""
    if isinstance(ca_bundle, bytes):
        ca_bundle = ca_bundle.decode("ascii")
    gated = f"{_ASKED} && '{QUEUE}' in object.metadata.annotations"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": settings.name},
        "webhooks": [
            _webhook(settings, ca_bundle, "inject", _ASKED, settings.failure_policy),
            _webhook(settings, ca_bundle, "gate", gated, "Fail"),
        ],
    }


def client_of(settings: WebhookSettings, ca_bundle: str | None, path: str) -> Object:
    """Return how the API server reaches one of our paths."""
    if settings.url is None:
        service = {"namespace": settings.namespace, "name": settings.service, "port": settings.port}
        client: Object = {"service": {**service, "path": path}}
    else:
        client = {"url": settings.url.rstrip("/") + path}
    if ca_bundle is not None:
        client["caBundle"] = ca_bundle
    return client


def _webhook(
    settings: WebhookSettings, ca_bundle: str | None, entry: ReviewEntry, condition: str, failure_policy: str
) -> Object:
    own = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({"kube-system", settings.namespace}),
    }
    return {
        "name": f"{entry}.specon.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_of(settings, ca_bundle, PATHS[entry]),
        "failurePolicy": failure_policy,
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "namespaceSelector": {"matchExpressions": [own]},
        "matchConditions": [
            {"name": "annotated", "expression": f"has(object.metadata.annotations) && {condition}"}
        ],
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "Namespaced",
            }
        ],
    }


def _tell(observer: ReviewObserver | None, entry: str, outcome: str) -> None:
    if observer is not None:
        observer(entry, outcome)
