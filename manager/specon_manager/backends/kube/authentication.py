"""Whose token is shown: TokenReview for sidecars, SubjectAccessReview for owners; answers are kept."""

import asyncio
import base64
import binascii
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from specon_manager.backends.kube.admission.sidecar_container import AUDIENCE
from specon_manager.backends.kube.transport.api import Api, ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, Object

Unavailable = Callable[[str], Exception]

_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_UNSAID_SECONDS: Final = 300.0  # how long an answer is kept where the token does not say when it ends
_LONGEST_SECONDS: Final = 3600.0
_REFUSED_SECONDS: Final = 10.0
_ACCESS_SECONDS: Final = 10.0  # permissions change, and nobody tells
_MOST_KEPT: Final = 20_000
_LONGEST_TOKEN: Final = 16 * 1024
_MOST_CALLS: Final = 32
_log = logging.getLogger(__name__)


class Caller(Struct, frozen=True, kw_only=True):
    """Whom the API server takes the holder of a token for."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def one(self, key: str) -> str | None:
        """Return the only value of an extra claim; None where there is none, or several."""
        values = self.extra.get(key, ())
        return values[0] if len(values) == 1 else None

    @property
    def namespace(self) -> str | None:
        """The namespace of a service account; None for anybody else."""
        if not self.username.startswith(_SERVICE_ACCOUNT):
            return None
        namespace, _, account = self.username.removeprefix(_SERVICE_ACCOUNT).partition(":")
        return namespace if namespace and account else None


class _Kept(Struct, frozen=True):
    caller: Caller
    until: float


class KubeIdentities:
    """`runtime.identities.Identities` of a cluster.

    A sidecar shows the token that its kubelet projects for our audience, and speaks for the pod to which the
    token is bound. An owner shows any token of the cluster whose user may `get` the path of the state. What
    the API server said is kept until the token ends, by the token's hash; a refusal is kept for seconds only.
    While the API server is away known tokens go on; of others nobody knows: `unavailable` makes that error.
    """

    def __init__(
        self,
        api: Api,
        *,
        unavailable: Unavailable,
        owner_path: str = "/v1/state",
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Ask `api`; `now` is Unix seconds, for the end that a token names."""
        self._api = api
        self._unavailable = unavailable
        self._owner_path = owner_path
        self._monotonic = monotonic
        self._now = now
        self._callers: OrderedDict[tuple[bytes, str], _Kept] = OrderedDict()
        self._refused: OrderedDict[tuple[bytes, str], float] = OrderedDict()
        """Until when; for themselves, so that a stream of bad tokens makes nobody forget a good one."""
        self._owners: OrderedDict[bytes, tuple[bool, float]] = OrderedDict()
        self._asking: dict[tuple[bytes, str], asyncio.Future[Caller | None]] = {}
        self._calls = asyncio.Semaphore(_MOST_CALLS)

    async def may_report(self, token: str, replica: str, incarnation: str) -> bool:
        """Whether the token is bound to the pod `incarnation` (its UID) in the replica's namespace."""
        caller = await self._caller(token, AUDIENCE)
        if caller is None or not incarnation or caller.one(_POD_UID) != incarnation:
            return False
        return bool(caller.one(_POD_NAME)) and caller.namespace == replica.partition("/")[0]

    async def pod_of(self, token: str) -> tuple[str, str] | None:
        """Return namespace and name of the pod to which a sidecar's token is bound; None where it is none."""
        caller = await self._caller(token, AUDIENCE)
        name = None if caller is None else caller.one(_POD_NAME)
        return None if caller is None or not name or not caller.namespace else (caller.namespace, name)

    async def is_owner(self, token: str) -> bool:
        """Whether the token's user may `get` the path of the state, a non-resource URL."""
        caller = await self._caller(token, "")
        if caller is None:
            return False
        key = _hash(token)
        kept = self._owners.get(key)
        if kept is not None and kept[1] > self._monotonic():
            return kept[0]
        attributes = {"path": self._owner_path, "verb": "get"}
        spec: Object = {
            "user": caller.username,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {name: list(values) for name, values in caller.extra.items()},
            "nonResourceAttributes": attributes,
        }
        answer = await self._ask(SUBJECT_ACCESS_REVIEWS, "SubjectAccessReview", spec)
        allowed = answer.get("allowed") is True
        _keep(self._owners, key, (allowed, self._monotonic() + _ACCESS_SECONDS))
        return allowed

    async def _caller(self, token: str, audience: str) -> Caller | None:
        """Return whose token it is; None for nobody's. Several that ask at once share one call."""
        if len(token) > _LONGEST_TOKEN or not token.isascii():
            return None
        key = (_hash(token), audience)
        kept = self._callers.get(key)
        if kept is not None and kept.until > self._monotonic():
            self._callers.move_to_end(key)
            return kept.caller
        if self._refused.get(key, 0.0) > self._monotonic():
            return None
        asking = self._asking.get(key)
        if asking is None:
            asking = asyncio.ensure_future(self._review(token, audience, key))
            self._asking[key] = asking
            asking.add_done_callback(lambda done: self._answer(key, done))
        return await asyncio.shield(asking)

    def _answer(self, key: tuple[bytes, str], done: asyncio.Future[Caller | None]) -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # seen, even where all who asked have gone

    async def _review(self, token: str, audience: str, key: tuple[bytes, str]) -> Caller | None:
        spec: Object = {"token": token}
        if audience:
            spec["audiences"] = [audience]
        status = await self._ask(TOKEN_REVIEWS, "TokenReview", spec)
        caller = _caller_of(status, audience)
        now = self._monotonic()
        if caller is None:
            self._callers.pop(key, None)
            _keep(self._refused, key, now + _REFUSED_SECONDS)
        else:
            seconds = min(self._seconds_left(token), _LONGEST_SECONDS)
            _keep(self._callers, key, _Kept(caller, now + seconds))
        return caller

    async def _ask(self, resource: Any, kind: str, spec: Object) -> Object:
        """Return the status of a review."""
        body = {"apiVersion": resource.api_version, "kind": kind, "spec": spec}
        try:
            async with self._calls:
                answer = await self._api.create(resource, body)
        except ApiUnavailableError as error:
            raise self._unavailable(str(error)) from error
        except ApiError as error:
            # Not a word on the token: we may not ask, or not so often.
            _log.warning("%s: %s", kind, error)
            raise self._unavailable(str(error)) from error
        status = answer.get("status")
        return status if isinstance(status, dict) else {}

    def _seconds_left(self, token: str) -> float:
        """Return how long the token says that it is valid: the API server has checked its signature."""
        try:
            payload = token.split(".")[1]
            claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            ends = float(claims["exp"])
        except (IndexError, KeyError, TypeError, ValueError, binascii.Error, msgspec.DecodeError):
            return _UNSAID_SECONDS
        return max(0.0, ends - self._now())


def _caller_of(status: Object, audience: str) -> Caller | None:
    """Return whom a TokenReview names; None where it is not authenticated, or for another audience."""
    user = status.get("user")
    if status.get("authenticated") is not True or not isinstance(user, dict):
        return None
    # An authenticator that knows no audiences leaves them out: its word is not for our audience.
    if audience and audience not in (status.get("audiences") or ()):
        return None
    extra = user.get("extra") or {}
    return Caller(
        username=str(user.get("username") or ""),
        uid=str(user.get("uid") or ""),
        groups=tuple(str(one) for one in user.get("groups") or ()),
        extra={str(key): tuple(str(one) for one in values or ()) for key, values in extra.items()},
    )


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Keep an answer; the one that was not asked for longest goes first."""
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
