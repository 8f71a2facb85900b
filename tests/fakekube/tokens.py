"""Service account tokens: issued, reviewed, and what their owners may do.

The tokens look like JSON Web Tokens, but nobody has signed them.
"""

import base64
import uuid

import msgspec

from fakekube import failures
from fakekube.clock import Clock, seconds_of
from fakekube.kinds import PODS, SECRETS, SERVICE_ACCOUNTS, Kind, Object
from fakekube.store import Store

DEFAULT_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_BOUND: dict[str, Kind] = {"Pod": PODS, "Secret": SECRETS}
_SHORTEST = 600


class Tokens:
    """What was issued, and who may do what."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._claims: dict[str, Object] = {}
        self._allowed: set[tuple[str, str, str]] = set()
        self.reviews = 0

    def allow(self, user: str, verb: str, path: str) -> None:
        """Let a user (or `group:NAME`) do something with a non-resource path, or with `resource.group`."""
        self._allowed.add((user, verb, path))

    def issue(self, namespace: str, account: str, body: Object) -> Object:
        """Answer a TokenRequest."""
        if self._store.get(SERVICE_ACCOUNTS, (namespace, account)) is None:
            raise failures.not_found(SERVICE_ACCOUNTS, account)
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds") or 3600
        if seconds < _SHORTEST:
            cause = (
                "FieldValueInvalid",
                f"Invalid value: {seconds}: may not specify a duration less than 10 minutes",
                "spec.expirationSeconds",
            )
            raise failures.FailureError(
                422, "Invalid", f"TokenRequest is invalid: {cause[2]}: {cause[1]}", causes=[cause]
            )
        claims: Object = {
            "aud": spec.get("audiences") or [DEFAULT_AUDIENCE],
            "exp": int(self._clock.now() + seconds),
            "iat": int(self._clock.now()),
            "iss": DEFAULT_AUDIENCE,
            "jti": str(uuid.uuid4()),
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account}},
        }
        self._bind(namespace, account, spec.get("boundObjectRef"), claims["kubernetes.io"])
        token = ".".join((_base64({"alg": "none"}), _base64(claims), "unsigned"))
        self._claims[token] = claims
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": account, "namespace": namespace},
            "spec": {**spec, "expirationSeconds": seconds, "audiences": claims["aud"]},
            "status": {"token": token, "expirationTimestamp": self._clock.text(ahead=seconds)},
        }

    def _bind(self, namespace: str, account: str, bound: Object | None, claims: Object) -> None:
        if not bound:
            return
        kind = _BOUND[bound["kind"]]
        value = self._store.get(kind, (namespace, bound["name"]))
        if value is None:
            raise failures.not_found(kind, bound["name"])
        uid = value["metadata"]["uid"]
        if bound.get("uid") not in {None, "", uid}:
            told = (
                f"the UID in the bound object reference ({bound['uid']}) does not match the UID in record. "
                f"The object might have been deleted and then recreated ({uid})"
            )
            raise failures.conflict(kind, bound["name"], told)
        if kind is PODS and value["spec"].get("serviceAccountName") != account:
            told = (
                f'cannot bind token for serviceaccount "{account}" '
                "to pod running with different serviceaccount name."
            )
            raise failures.bad_request(told)
        claims[bound["kind"].lower()] = {"name": bound["name"], "uid": uid}
        if kind is PODS and value["spec"].get("nodeName"):
            claims["node"] = {"name": value["spec"]["nodeName"]}

    def review(self, body: Object) -> Object:
        """Answer a TokenReview."""
        self.reviews += 1
        spec = body.get("spec") or {}
        status = self._status(spec.get("token", ""), spec.get("audiences") or [])
        return {**_answer(body, "TokenReview", "authentication.k8s.io/v1"), "status": status}

    def _status(self, token: str, audiences: list[str]) -> Object:
        claims = self._claims.get(token)
        if claims is None:
            return {"user": {}, "error": "[invalid bearer token, token lookup failed]"}
        if claims["exp"] <= self._clock.now():
            return {"user": {}, "error": "[invalid bearer token, service account token has expired]"}
        fitting = [audience for audience in audiences or [DEFAULT_AUDIENCE] if audience in claims["aud"]]
        if not fitting:
            told = f"token audiences {claims['aud']!r} is invalid for the target audiences {audiences!r}"
            return {"user": {}, "error": f"[invalid bearer token, {told}]"}
        about = claims["kubernetes.io"]
        if not self._lives(about):
            return {"user": {}, "error": "[invalid bearer token, service account token has been invalidated]"}
        return {"authenticated": True, "user": self._user(claims), "audiences": fitting}

    def _lives(self, about: Object) -> bool:
        for word, kind in (("pod", PODS), ("secret", SECRETS)):
            if word in about:
                value = self._store.get(kind, (about["namespace"], about[word]["name"]))
                if value is None or value["metadata"]["uid"] != about[word]["uid"]:
                    return False
                ended = value["metadata"].get("deletionTimestamp")
                if ended and seconds_of(ended) + 60 < self._clock.now():
                    return False
        return (
            self._store.get(SERVICE_ACCOUNTS, (about["namespace"], about["serviceaccount"]["name"]))
            is not None
        )

    def _user(self, claims: Object) -> Object:
        about = claims["kubernetes.io"]
        prefix = "authentication.kubernetes.io"
        extra = {f"{prefix}/credential-id": [f"JTI={claims['jti']}"]}
        if "pod" in about:
            extra |= {
                f"{prefix}/pod-name": [about["pod"]["name"]],
                f"{prefix}/pod-uid": [about["pod"]["uid"]],
            }
        if "node" in about:
            extra |= {f"{prefix}/node-name": [about["node"]["name"]]}
        account = self._store.get(SERVICE_ACCOUNTS, (about["namespace"], about["serviceaccount"]["name"]))
        assert account is not None
        return {
            "username": claims["sub"],
            "uid": account["metadata"]["uid"],
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{about['namespace']}",
                "system:authenticated",
            ],
            "extra": extra,
        }

    def who(self, user: str) -> Object:
        """Answer a SelfSubjectReview."""
        status = {"userInfo": {"username": user, "groups": ["system:authenticated"]}}
        return {**_answer({}, "SelfSubjectReview", "authentication.k8s.io/v1"), "status": status}

    def access(self, body: Object) -> Object:
        """Answer a SubjectAccessReview."""
        spec = body.get("spec") or {}
        asked = spec.get("nonResourceAttributes")
        if asked is None:
            asked = spec.get("resourceAttributes") or {}
            path = ".".join(part for part in (asked.get("resource", ""), asked.get("group", "")) if part)
        else:
            path = asked.get("path", "")
        names = [spec.get("user", ""), *(f"group:{group}" for group in spec.get("groups") or [])]
        allowed = any((name, asked.get("verb", ""), path) in self._allowed for name in names)
        allowed = allowed or "group:system:masters" in names
        status = {"allowed": allowed} | ({"reason": "allowed by a test"} if allowed else {})
        return {**_answer(body, "SubjectAccessReview", "authorization.k8s.io/v1"), "status": status}


def _answer(body: Object, kind: str, api_version: str) -> Object:
    metadata = body.get("metadata") or {}
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "spec": body.get("spec")}


def _base64(value: Object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()
