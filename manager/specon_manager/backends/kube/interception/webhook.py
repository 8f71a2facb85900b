"""The webhook that is asked of evictions: its route, and the configuration by which it is called."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from specon_manager.backends.kube.admission.bounded_route import bounded_route
from specon_manager.backends.kube.admission.reviews import decode_body
from specon_manager.backends.kube.admission.webhook import ReviewObserver, WebhookSettings, client_of
from specon_manager.backends.kube.interception.eviction import (
    Answer,
    Eviction,
    answer_eviction,
    read_eviction,
)
from specon_manager.backends.kube.transport.resources import Object

PATH: Final = "/v1/admission/evict"
ENTRY: Final = "evict"
TIMEOUT_SECONDS: Final = 5
MAX_BYTES: Final = 512 * 1024
"""Of a review: an Eviction has a name and, at most, the annotations that an object may have."""
_ANSWER_SECONDS: Final = 4.5
_log = logging.getLogger(__name__)

Answerer = Callable[[Eviction], Awaitable[Answer]]


def eviction_routes(answer: Answerer, observer: ReviewObserver) -> list[web.RouteDef]:
    """Return the route. What cannot be answered in time, or is no review, is told so: then it passes."""

    async def judge(body: bytes) -> tuple[Object, str]:
        return await answer_review(body, answer)

    return [bounded_route(PATH, ENTRY, judge, observer, max_bytes=MAX_BYTES)]


async def answer_review(body: bytes, answer: Answerer) -> tuple[Object, str]:
    """Return the answer to a review, and `allowed` or `denied`. Raises NoReviewError."""
    review = decode_body(body)
    eviction = read_eviction(review)
    if eviction is None:
        uid = review["request"]["uid"]
        return answer_eviction(uid, Answer(verdict="pass")), "allowed"
    async with asyncio.timeout(_ANSWER_SECONDS):
        told = await answer(eviction)
    if told.words:
        _log.info(
            "eviction of %s/%s: %s: %.300s", eviction.namespace, eviction.name, told.verdict, told.words
        )
    return answer_eviction(eviction.review, told), "allowed" if told.verdict == "pass" else "denied"


def eviction_webhook(settings: WebhookSettings, ca_bundle: bytes | str | None, *, user: str = "") -> Object:
    """Return the ValidatingWebhookConfiguration; `user` is as whom the manager evicts, where that is known.

    Neither labels nor annotations of the pod are there to select by: the object is the Eviction.
    """
    if isinstance(ca_bundle, bytes):
        ca_bundle = ca_bundle.decode("ascii")
    conditions = [
        {"name": "not-by-the-manager", "expression": f"request.userInfo.username != '{user}'"},
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": settings.name},
        "webhooks": [
            {
                "name": f"{ENTRY}.specon.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": client_of(settings, ca_bundle, PATH),
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["kube-system"],
                        }
                    ]
                },
                **({"matchConditions": conditions} if user else {}),
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/eviction"],
                        "scope": "Namespaced",
                    }
                ],
            }
        ],
    }
