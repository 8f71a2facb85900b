"""AdmissionReview in, AdmissionReview out: no API calls, no state, the same answer every time.

A wrong annotation is denied with every mistake named. An error of our own must not stop what has nothing to
do with it: at the entry `inject` the pod is admitted as it is, with a warning; at `gate`, where a pod without
what it asked for is worse than one that is tried again, it is denied.

Pods in a queue come through both entries, in this order. Nobody would ever release a gated pod that has no
sidecar, and `inject` may have been let pass while nobody answered: `gate` injects as well. Either may be
asked again after another webhook has changed the pod, and then changes nothing.
"""

import base64
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

from specon_manager.backends.kube.admission.gate import gate_arrival, gate_pod
from specon_manager.backends.kube.admission.injection import Injection, InjectionSettings, inject
from specon_manager.backends.kube.admission.json_patch import json_patch
from specon_manager.backends.kube.admission.trainer_container import PodRefusedError
from specon_manager.backends.kube.objects.annotation_conflicts import doubts
from specon_manager.backends.kube.objects.annotation_mistakes import AnnotationError
from specon_manager.backends.kube.objects.annotation_reader import read_options
from specon_manager.backends.kube.transport.reading import describe_error
from specon_manager.backends.kube.transport.resources import Object

ReviewEntry = Literal["inject", "gate"]

_API_VERSION: Final = "admission.k8s.io/v1"
_INVALID: Final = 422
_INTERNAL: Final = 500
_LONGEST_MESSAGE: Final = 4000
_log = logging.getLogger(__name__)


class NoReviewError(ValueError):
    """The body is no AdmissionReview of version v1."""


def review(
    request: Object,
    settings: InjectionSettings | None,
    pins: Mapping[str, str],
    entry: ReviewEntry = "inject",
    arriving: Collection[str] = (),
) -> Object:
    """Return the answer to a review; without settings every pod passes unchanged.

    `arriving` are the replicas whose next pod a move awaits.

    Raises NoReviewError where there is nothing to answer.
    """
    asked = read_request(request)
    if settings is None:
        return _allow(asked["uid"], [], [])
    try:
        return _answer(asked, settings, pins, entry, arriving)
    except (AnnotationError, PodRefusedError) as error:
        return _deny(asked["uid"], _INVALID, "Invalid", str(error))
    except Exception as error:  # noqa: BLE001  (the rim: nobody's pod may hang on a mistake of ours)
        # Without the trace: with it, any caller of the port could fill the log.
        _log.error("admission of a pod in %.80s: %s", asked.get("namespace"), describe_error(error))
        said = f"specon: internal error: {type(error).__name__}: {error}"
        if entry == "gate":
            return _deny(asked["uid"], _INTERNAL, "InternalError", said)
        return _allow(asked["uid"], [], [f"{said}; the pod has no sidecar"])


def read_request(request: Object) -> Object:
    """Return the request, which has a UID. Raises NoReviewError where it is no AdmissionReview."""
    if request.get("kind") != "AdmissionReview":
        raise NoReviewError(f"kind: {str(request.get('kind'))[:80]!r} is not AdmissionReview")
    if request.get("apiVersion") != _API_VERSION:
        raise NoReviewError(f"apiVersion: {str(request.get('apiVersion'))[:80]!r} is not {_API_VERSION}")
    asked = request.get("request")
    if not isinstance(asked, dict) or not isinstance(asked.get("uid"), str) or not asked["uid"]:
        raise NoReviewError("request.uid: is missing")
    return asked


def _answer(
    asked: Object,
    settings: InjectionSettings,
    pins: Mapping[str, str],
    entry: ReviewEntry,
    arriving: Collection[str],
) -> Object:
    uid, pod = asked["uid"], asked.get("object")
    resource = asked.get("resource") or {}
    if asked.get("operation") != "CREATE" or resource.get("resource") != "pods" or asked.get("subResource"):
        return _allow(uid, [], [])
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict):
        raise PodRefusedError("object: is not a pod with metadata")
    annotations = pod["metadata"].get("annotations") or {}
    options = read_options(annotations)
    if not options.inject:
        return _allow(uid, [], [])
    namespace = asked.get("namespace") or pod["metadata"].get("namespace") or "default"
    done = inject(pod, namespace, options, settings, pins)
    warnings = [*doubts(options), *done.warnings]
    if entry == "gate":
        warnings = []  # the other entry says the same, for it is asked about this pod too
        if options.queue is not None:
            done = gate_pod(Injection(done.pod), namespace, pins)
            warnings += done.warnings
    return _allow(uid, json_patch(pod, gate_arrival(done, arriving).pod), warnings)


def _allow(uid: str, patch: Sequence[Object], warnings: Sequence[str]) -> Object:
    response: Object = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode("ascii")
    if warnings:
        response["warnings"] = [_shorten(one) for one in warnings]
    return _review(response)


def _deny(uid: str, code: int, reason: str, message: str) -> Object:
    status = {"code": code, "reason": reason, "message": _shorten(message)}
    return _review({"uid": uid, "allowed": False, "status": status})


def _review(response: Object) -> Object:
    return {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response}


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
