"""AdmissionReviews of evictions, read and answered. Pure.

The object under review is the Eviction, of policy/v1 or v1beta1, and not the pod: it has neither the pod's
labels nor its annotations. A dry run is named in two places: in the request, where the caller
asked the API server for a dry run, and in the Eviction's own options for the deletion, which the
request does not repeat.

Source: admission.k8s.io/v1, and the eviction of kube-apiserver 1.36, `core/pod/storage/eviction.go`.
"""

from typing import Final, Literal

from msgspec import Struct

from specon_manager.backends.kube.admission.review import NoReviewError, read_request
from specon_manager.backends.kube.objects.fields import mapping
from specon_manager.backends.kube.transport.resources import Object

_LONGEST: Final = 253  # characters of a name in Kubernetes
_LONGEST_USER: Final = 1024
_LONGEST_WORDS: Final = 1000


class Eviction(Struct, frozen=True, kw_only=True):
    """What somebody asks for."""

    review: str
    """UID of the review, which its answer repeats."""
    namespace: str
    name: str
    """Of the pod."""
    uid: str = ""
    """Of the pod, where the caller means this one alone."""
    user: str = ""
    dry_run: bool = False


class Answer(Struct, frozen=True, kw_only=True):
    """The answer, and the steps before it."""

    verdict: Literal["pass", "wait", "gone", "forbidden"]
    """Let it pass; 429, it is asked again later; 404, there is no such pod any more; or what the API server
    said of the budgets."""
    words: str = ""
    """Why; empty where nobody has to be told."""
    warning: bool = False
    """Whether the pod gets a warning event, for training may be lost."""
    attempt: int = 0
    """Which wish is to be written before this is answered, counted from 1; 0: none."""
    by_budget: bool = False
    """Whether a disruption budget forbids it as far as is known, which the API server is to be asked."""
    several: bool = False
    """Whether it is forbidden since the pod has several budgets, which is nothing to wait for."""


def read_eviction(review: Object) -> Eviction | None:
    """Return the eviction that is reviewed, None where it is none. Raises NoReviewError for no review."""
    asked = read_request(review)
    resource = mapping(asked.get("resource"))
    if (resource.get("resource"), asked.get("subResource")) != ("pods", "eviction"):
        return None
    if resource.get("group") or asked.get("operation") != "CREATE":
        return None
    eviction = mapping(asked.get("object"))
    metadata, options = mapping(eviction.get("metadata")), mapping(eviction.get("deleteOptions"))
    namespace = _text(asked.get("namespace")) or _text(metadata.get("namespace"))
    name = _text(asked.get("name")) or _text(metadata.get("name"))
    if not namespace or not name:
        raise NoReviewError("request.name, request.namespace: are missing")
    return Eviction(
        review=asked["uid"],
        namespace=namespace,
        name=name,
        uid=_text(mapping(options.get("preconditions")).get("uid")),
        user=_text(mapping(asked.get("userInfo")).get("username"), _LONGEST_USER),
        dry_run=asked.get("dryRun") is True or bool(options.get("dryRun")),
    )


def answer_eviction(review: str, answer: Answer) -> Object:
    """Return the AdmissionReview that says it.

    The status has no `retryAfterSeconds`: the API server would make a header `Retry-After` of it, upon which
    client-go sends the same request again by itself, and its user hears nothing meanwhile.
    """
    words = answer.words[:_LONGEST_WORDS]
    response: Object = {"uid": review, "allowed": answer.verdict == "pass"}
    if answer.verdict == "wait":
        response["status"] = {"code": 429, "reason": "TooManyRequests", "message": words}
    elif answer.verdict == "forbidden":
        response["status"] = _answer_by_budgets(answer, words)
    elif answer.verdict == "gone":
        response["status"] = {"code": 404, "reason": "NotFound", "message": words}
    elif words:
        response["warnings"] = [words]
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _answer_by_budgets(answer: Answer, words: str) -> Object:
    """Return what the API server says of the budgets of a pod; callers look at code and cause."""
    if answer.several:
        return {"code": 500, "reason": "InternalError", "message": words}
    causes = [{"reason": "DisruptionBudget", "message": words}]
    return {"code": 429, "reason": "TooManyRequests", "message": words, "details": {"causes": causes}}


def _text(given: object, longest: int = _LONGEST) -> str:
    return given if isinstance(given, str) and len(given) <= longest else ""
