"""Whose token is shown, how long that is believed, and what is said while nobody can tell."""

import asyncio
import base64
import json

import pytest

from specon_manager.backends.kube import authentication
from specon_manager.backends.kube.authentication import KubeIdentities
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError

REPLICA, UID = "ml/mnist/worker/0", "0b1c"


class NobodyKnowsError(Exception):
    pass


def token(name, exp=None):
    """Return a token as the API server signs them: three parts; we read only when it expires."""
    claims = {"sub": name} if exp is None else {"sub": name, "exp": exp}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


class Cluster:
    """An API server that knows tokens and permissions."""

    def __init__(self):
        self.users = {}
        self.allowed = set()
        self.error = None
        self.asked = []
        self.gate = asyncio.Event()
        self.gate.set()

    def knows(self, shown, *, pod="mnist", uid=UID, namespace="ml", audiences=("specon.io/manager",)):
        extra = {
            "authentication.kubernetes.io/pod-name": [pod],
            "authentication.kubernetes.io/pod-uid": [uid],
        }
        user = {"username": f"system:serviceaccount:{namespace}:default", "uid": "u", "groups": ["g"]}
        self.users[shown] = ({**user, "extra": extra}, audiences)

    async def create(self, resource, body):
        self.asked.append((body["kind"], body["spec"]))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if body["kind"] == "SubjectAccessReview":
            return {"status": {"allowed": body["spec"]["user"] in self.allowed}}
        user, audiences = self.users.get(body["spec"]["token"], (None, ()))
        wanted = body["spec"].get("audiences") or ["https://kubernetes"]
        common = [one for one in wanted if one in audiences]
        if user is None or not common:
            return {"status": {"error": "invalid bearer token"}}
        return {"status": {"authenticated": True, "user": user, "audiences": common}}


@pytest.fixture
def cluster():
    return Cluster()


class Time:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def identities(cluster, time):
    return KubeIdentities(cluster, unavailable=NobodyKnowsError, monotonic=time, now=time)


async def test_a_sidecar_speaks_for_its_own_pod(cluster, identities):
    """The pod that its token is bound to, in the namespace of its service account."""
    cluster.knows(token("a"))
    assert await identities.may_report(token("a"), REPLICA, UID)
    assert cluster.asked == [("TokenReview", {"token": token("a"), "audiences": ["specon.io/manager"]})]


@pytest.mark.parametrize(
    ("known", "replica", "incarnation"),
    [
        ({}, REPLICA, "another-uid"),
        ({}, REPLICA, ""),
        ({}, "other/mnist/worker/0", UID),
        ({"uid": ""}, REPLICA, ""),
        ({"pod": ""}, REPLICA, UID),
        ({"audiences": ("https://kubernetes",)}, REPLICA, UID),
    ],
    ids=["uid", "no uid", "namespace", "unbound", "no pod", "audience"],
)
async def test_it_speaks_for_no_other(cluster, identities, known, replica, incarnation):
    """Refused, and not unknown."""
    cluster.knows(token("a"), **known)
    assert not await identities.may_report(token("a"), replica, incarnation)


async def test_an_authenticator_without_audiences_is_not_believed(cluster, identities):
    """It has not looked whether the token is for us."""
    cluster.knows(token("a"))

    async def create(resource, body):
        return {"status": {"authenticated": True, "user": cluster.users[token("a")][0]}}

    cluster.create = create
    assert not await identities.may_report(token("a"), REPLICA, UID)


async def test_a_token_is_looked_at_once_in_its_life(cluster, identities, time):
    """Until it ends; where it does not say when, for five minutes."""
    for shown, life in ((token("a", exp=1600), 600), (token("b"), 300), (token("c", exp=1e12), 3600)):
        time.now = 1000.0
        cluster.knows(shown)
        cluster.asked.clear()
        for at in (0, life / 2, life - 1):
            time.now = 1000.0 + at
            assert await identities.may_report(shown, REPLICA, UID)
        assert len(cluster.asked) == 1
        time.now = 1000.0 + life
        await identities.may_report(shown, REPLICA, UID)
        assert len(cluster.asked) == 2


async def test_a_refusal_is_kept_for_seconds(cluster, identities, time):
    """A flood of one wrong token is one call; a pod whose token is known a moment later comes in."""
    for _ in range(100):
        assert not await identities.may_report(token("a"), REPLICA, UID)
    assert len(cluster.asked) == 1
    cluster.knows(token("a"))
    time.now += 11
    assert await identities.may_report(token("a"), REPLICA, UID)


@pytest.mark.parametrize("error", [ApiUnavailableError("down"), ApiError(403, "Forbidden", "not you")])
async def test_while_nobody_can_tell_known_tokens_go_on(cluster, identities, error):
    """Unknown ones are not refused either: their holder comes again."""
    cluster.knows(token("a"))
    cluster.knows(token("b"))
    assert await identities.may_report(token("a"), REPLICA, UID)
    cluster.error = error
    assert await identities.may_report(token("a"), REPLICA, UID)
    with pytest.raises(NobodyKnowsError):
        await identities.may_report(token("b"), REPLICA, UID)
    cluster.error = None
    assert await identities.may_report(token("b"), REPLICA, UID)


async def test_those_who_ask_at_once_share_a_call(cluster, identities):
    """One of them may go away without the others losing their answer."""
    cluster.knows(token("a"))
    cluster.gate.clear()
    asking = [asyncio.ensure_future(identities.may_report(token("a"), REPLICA, UID)) for _ in range(20)]
    while not cluster.asked:  # noqa: ASYNC110 - one turn of the loop each
        await asyncio.sleep(0)
    asking[0].cancel()
    cluster.gate.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert answers[1:] == [True] * 19
    assert len(cluster.asked) == 1


@pytest.mark.parametrize("shown", ["é", "\udcff", "x" * 100_000])
async def test_what_is_no_token_is_not_asked_about(cluster, identities, shown):
    """Refused here: the API server has better things to do."""
    assert not await identities.may_report(shown, REPLICA, UID)
    assert not await identities.is_owner(shown)
    assert cluster.asked == []


async def test_the_number_of_kept_answers_is_bounded(cluster, identities, monkeypatch):
    """The one not asked for longest goes first."""
    monkeypatch.setattr("specon_manager.backends.kube.authentication._MOST_KEPT", 3)
    for name in ("a", "b", "c", "d"):
        cluster.knows(token(name))
    for name in ("b", "c", "d"):
        await identities.may_report(token("a"), REPLICA, UID)
        await identities.may_report(token(name), REPLICA, UID)
    cluster.asked.clear()
    await identities.may_report(token("a"), REPLICA, UID)
    assert cluster.asked == []
    await identities.may_report(token("b"), REPLICA, UID)
    assert len(cluster.asked) == 1


async def test_an_owner_may_read_the_state(cluster, identities, time):
    """An owner is a user to whom the cluster allows the path; it is asked again soon: permissions change."""
    cluster.knows(token("a"), audiences=("https://kubernetes",))
    assert not await identities.is_owner(token("a"))
    kind, spec = cluster.asked[-1]
    assert kind == "SubjectAccessReview"
    assert spec["nonResourceAttributes"] == {"path": "/v1/state", "verb": "get"}
    assert (spec["user"], spec["groups"]) == ("system:serviceaccount:ml:default", ["g"])
    cluster.allowed.add("system:serviceaccount:ml:default")
    assert not await identities.is_owner(token("a"))
    time.now += 11
    assert await identities.is_owner(token("a"))
    assert not await identities.is_owner(token("nobody"))


async def test_a_sidecar_is_no_owner(cluster, identities):
    """Its token is for our audience alone."""
    cluster.knows(token("a"))
    cluster.allowed.add("system:serviceaccount:ml:default")
    assert not await identities.is_owner(token("a"))


async def test_a_stream_of_bad_tokens_makes_nobody_forget_a_good_one(identities, cluster, monkeypatch):
    """Refusals are kept apart: what is known of sidecars needs no word of the API server while it is away."""
    monkeypatch.setattr(authentication, "_MOST_KEPT", 3)
    good = token("good")
    cluster.knows(good)
    assert await identities.may_report(good, REPLICA, UID)
    for index in range(10):
        assert not await identities.may_report(token(f"bad-{index}"), REPLICA, UID)
    cluster.error = ApiUnavailableError("away")
    assert await identities.may_report(good, REPLICA, UID)
    assert len(identities._refused) == 3
