"""Tokens of service accounts, and who may do what."""

from support.kube.manifests import pod

AUDIENCE = "specon.io/manager"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def _token(kube, **spec):
    asked = {"audiences": [AUDIENCE], "expirationSeconds": 600, **spec}
    return await kube.create("serviceaccounts", {"spec": asked}, "default", "token")


async def _review(kube, token: str, *audiences: str):
    answer = await kube.ask("POST", REVIEWS, {"spec": {"token": token, "audiences": list(audiences)}})
    assert answer.status == 201
    return answer.body["status"]


async def test_token_names_its_pod(kube):
    """A token that is bound to a pod is reviewed with the pod's name and uid."""
    made = await kube.create("pods", pod(serviceAccountName="default"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "trainer", "uid": made.uid}
    token = (await _token(kube, boundObjectRef=bound)).body["status"]["token"]
    status = await _review(kube, token, AUDIENCE)
    assert (status["authenticated"], status["audiences"]) == (True, [AUDIENCE])
    assert status["user"]["username"] == f"system:serviceaccount:{kube.namespace}:default"
    extra = status["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["trainer"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [made.uid]


async def test_token_is_for_its_audience(kube):
    """A token is no good for another audience, nor for the API server's own."""
    token = (await _token(kube)).body["status"]["token"]
    for audiences in ((), ("other.io/manager",)):
        status = await _review(kube, token, *audiences)
        assert not status.get("authenticated")
        assert "error" in status
    assert (await _review(kube, token, "other.io/manager", AUDIENCE))["audiences"] == [AUDIENCE]


async def test_nonsense_is_no_token(kube):
    """What nobody issued is not authenticated."""
    assert not (await _review(kube, "nonsense", AUDIENCE)).get("authenticated")


async def test_token_ends_with_its_pod(kube):
    """When the pod's object is gone its token is no good any more (a real server notices within 10 s)."""
    made = await kube.create("pods", pod(serviceAccountName="default"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "trainer", "uid": made.uid}
    token = (await _token(kube, boundObjectRef=bound)).body["status"]["token"]
    await kube.delete("pods", "trainer")

    async def refused() -> bool:
        return not (await _review(kube, token, AUDIENCE)).get("authenticated")

    await kube.eventually(refused)


async def test_token_for_another_pod(kube):
    """A token cannot be bound to a pod that is not there, nor to another incarnation of it."""
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "trainer"}
    assert (await _token(kube, boundObjectRef=bound)).status == 404
    await kube.create("pods", pod(serviceAccountName="default"))
    bound["uid"] = "11111111-1111-1111-1111-111111111111"
    assert (await _token(kube, boundObjectRef=bound)).status == 409


async def test_short_token(kube):
    """A token lives ten minutes at least."""
    assert (await _token(kube, expirationSeconds=60)).status == 422


async def test_access_to_a_path(kube):
    """An administrator may ask any path, somebody unknown may not."""
    asked = {"nonResourceAttributes": {"path": "/v1/moves", "verb": "post"}}
    for user, groups, allowed in (("a", ["system:masters"], True), ("b", ["system:authenticated"], False)):
        answer = await kube.ask("POST", ACCESS, {"spec": {"user": user, "groups": groups, **asked}})
        assert (answer.status, answer.body["status"]["allowed"]) == (201, allowed)
