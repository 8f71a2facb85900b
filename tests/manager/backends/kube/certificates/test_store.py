"""What the leader does for certificates, and what it leaves alone."""

import asyncio
import copy
import datetime as dt

import msgspec
import pytest

from specon_manager.backends.kube.admission.webhook import WebhookSettings, webhook_configuration
from specon_manager.backends.kube.certificates.bundle import CertificateError, ca_bundle, from_secret_data
from specon_manager.backends.kube.certificates.served import ServedCertificate, secret_reflector
from specon_manager.backends.kube.certificates.store import CertificateStore, PodAuthorities, StoreSettings
from specon_manager.backends.kube.transport.api import ApiError, ApiUnavailableError
from specon_manager.backends.kube.transport.reading import ReadGuard
from specon_manager.backends.kube.transport.rivals import KEPT_BY, find_keeper

NOW = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SETTINGS = StoreSettings(
    namespace="specon", secret="specon-tls", webhook_configuration="specon", services=("hook", "reports")
)

MARKED = msgspec.structs.replace(SETTINGS, lease="specon/manager")


class Cluster:
    """Objects by plural and name, with versions; what is written is counted."""

    def __init__(self):
        self.objects = {}
        self.writes = []
        self.failing = None
        self.reading = ReadGuard()
        self._version = 0
        configuration = webhook_configuration(
            WebhookSettings(name="specon", namespace="specon", service="hook"), None
        )
        self.put("mutatingwebhookconfigurations", configuration)

    def put(self, plural, body):
        self._version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self._version)
        self.objects[plural, body["metadata"]["name"]] = body
        return body

    def _found(self, resource, name):
        if (resource.plural, name) not in self.objects:
            raise ApiError(404, "NotFound", name)
        return copy.deepcopy(self.objects[resource.plural, name])

    async def get(self, resource, name, namespace=None):
        if self.failing is not None:
            raise self.failing
        return self._found(resource, name)

    async def create(self, resource, body, namespace):
        if (resource.plural, body["metadata"]["name"]) in self.objects:
            raise ApiError(409, "AlreadyExists", "")
        self.writes.append(("create", resource.plural))
        return self.put(resource.plural, body)

    async def replace(self, resource, body, name, namespace):
        if self._found(resource, name)["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "")
        self.writes.append(("replace", resource.plural))
        return self.put(resource.plural, body)

    async def patch(self, resource, name, namespace, body, *, form):
        self.writes.append(("patch", resource.plural))
        found = self._found(resource, name)
        if form == "merge":
            if found["metadata"]["uid"] != body["metadata"]["uid"]:
                raise ApiError(409, "Conflict", "")
            found["metadata"]["annotations"] |= body["metadata"]["annotations"]
        else:
            for test, add in zip(body[::2], body[1::2], strict=True):
                if test["path"].startswith("/metadata"):
                    if found["metadata"]["resourceVersion"] != test["value"]:
                        raise ApiError(422, "Invalid", "testing value /metadata/resourceVersion failed")
                    found["metadata"]["annotations"] = add["value"]
                    continue
                webhook = found["webhooks"][int(test["path"].split("/")[2])]
                assert webhook["name"] == test["value"]
                webhook["clientConfig"]["caBundle"] = add["value"]
        return self.put(resource.plural, found)

    async def pages(self, resource, *, label_selector):
        assert label_selector == "specon.io/sidecar=injected"
        found = [one for (plural, _), one in self.objects.items() if plural == resource.plural]
        for start in range(0, len(found), 2):
            yield copy.deepcopy(found[start : start + 2]), "1"

    @property
    def secret(self):
        return self.objects["secrets", "specon-tls"]

    @property
    def configuration(self):
        return self.objects["mutatingwebhookconfigurations", "specon"]

    @property
    def bundles(self):
        webhooks = self.objects["mutatingwebhookconfigurations", "specon"]["webhooks"]
        return [webhook["clientConfig"].get("caBundle") for webhook in webhooks]


class Time:
    now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def store(cluster, time):
    return CertificateStore(cluster, SETTINGS, now=time)


async def test_an_empty_cluster_gets_a_secret_and_authorities(cluster, store):
    """Once; a second look changes nothing."""
    bundle = await store.keep()
    assert cluster.writes == [("create", "secrets"), ("patch", "mutatingwebhookconfigurations")]
    assert cluster.secret["type"] == "kubernetes.io/tls"
    assert from_secret_data(cluster.secret["data"]) == bundle
    assert cluster.bundles == [ca_bundle(bundle)] * 2
    assert await store.keep() == bundle
    assert len(cluster.writes) == 2


async def test_the_configuration_is_marked_once_as_kept_by_our_lease(cluster, time):
    """Other managers see by it who writes there; what else is noted on it stays."""
    cluster.configuration["metadata"]["annotations"] = {"a": "b"}
    store = CertificateStore(cluster, MARKED, now=time)
    for _ in range(2):
        await store.keep()
        assert cluster.configuration["metadata"]["annotations"] == {"a": "b", KEPT_BY: "specon/manager"}
    assert cluster.writes.count(("patch", "mutatingwebhookconfigurations")) == 1


async def test_a_configuration_that_another_manager_keeps_is_left_alone(cluster, time):
    """It is said who writes there; once that one is gone, it is ours."""
    cluster.configuration["metadata"]["annotations"] = {KEPT_BY: "other/manager"}
    rival = "them leads by the Lease other/manager"
    store = CertificateStore(cluster, MARKED, now=time, rival=lambda: rival)
    with pytest.raises(
        CertificateError, match="MutatingWebhookConfiguration specon is not ours to write: them leads by"
    ):
        await store.keep()
    assert cluster.bundles == [None, None]
    rival = ""
    bundle = await store.keep()
    assert cluster.bundles == [ca_bundle(bundle)] * 2
    assert find_keeper(cluster.configuration) == "specon/manager"


async def test_an_empty_secret_is_filled(cluster, store):
    """One that was made beforehand, so that permissions can name it."""
    secret = {"metadata": {"name": "specon-tls", "annotations": {"a": "b"}}, "type": "Opaque"}
    cluster.put("secrets", secret)
    bundle = await store.keep()
    assert cluster.secret["type"] == "Opaque"
    assert cluster.secret["metadata"]["annotations"] == {"a": "b"}
    assert from_secret_data(cluster.secret["data"]) == bundle


async def test_the_authorities_are_known_before_they_are_used(cluster, store, time):
    """At each step of a renewal the API server has the list before anybody serves the certificate."""
    first = await store.keep()
    time.now = NOW + 1300 * DAY
    both = await store.keep()
    assert both.authorities[0] == first.authorities[0]
    assert len(both.authorities) == 2
    assert cluster.bundles == [ca_bundle(both)] * 2
    time.now += DAY
    adopted = await store.keep()
    assert adopted.authorities[0] == both.authorities[1]
    assert set(adopted.authorities) == set(both.authorities)


async def test_a_removed_bundle_is_put_back(cluster, store):
    """A new installation of the configuration leaves it out."""
    bundle = await store.keep()
    del cluster.objects["mutatingwebhookconfigurations", "specon"]["webhooks"][1]["clientConfig"]["caBundle"]
    await store.keep()
    assert cluster.bundles == [ca_bundle(bundle)] * 2


async def test_somebody_else_s_secret_is_not_touched(cluster, store):
    """Without our label it is refused in words; with it, what is broken is made anew."""
    secret = {"metadata": {"name": "specon-tls"}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}}
    cluster.put("secrets", secret)
    with pytest.raises(CertificateError, match=r"specon/specon-tls: ca.crt: is missing, and it is not ours"):
        await store.keep()
    assert cluster.writes == []
    secret["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "specon"}
    cluster.put("secrets", secret)
    bundle = await store.keep()
    assert from_secret_data(cluster.secret["data"]) == bundle


async def test_of_two_leaders_one_writes(cluster, store, time):
    """The other has a conflict, and takes what is there at its next look."""
    other = CertificateStore(cluster, SETTINGS, now=time)
    get = cluster.get
    waiting = asyncio.Barrier(2)

    async def at_once(resource, name, namespace=None):
        try:
            return await get(resource, name, namespace)
        finally:
            if resource.plural == "secrets":
                await waiting.wait()

    cluster.get = at_once
    results = await asyncio.gather(store.keep(), other.keep(), return_exceptions=True)
    cluster.get = get
    assert sorted(isinstance(one, ApiError) and one.already_exists for one in results) == [False, True]
    assert await store.keep() == await other.keep()


async def test_who_does_not_lead_writes_nothing(cluster, time):
    """Even where something is due."""
    store = CertificateStore(cluster, SETTINGS, now=time, fence=lambda: False)
    with pytest.raises(CertificateError, match="another manager leads"):
        await store.keep()
    assert cluster.writes == []


async def test_trouble_is_looked_at_again(cluster, time):
    """The API server is away for a while; then everything is there."""
    looks = 0

    async def sleep(_):
        nonlocal looks
        looks += 1
        cluster.failing = None
        if looks == 2:
            raise asyncio.CancelledError

    cluster.failing = ApiUnavailableError("away")
    with pytest.raises(asyncio.CancelledError):
        await CertificateStore(cluster, SETTINGS, now=time, sleep=sleep).run()
    assert cluster.secret["data"]


async def test_every_replica_serves_what_is_in_the_secret(cluster, store):
    """Loaded when it is there, and again when it changes; what is broken changes nothing."""
    served = ServedCertificate()
    reflector = secret_reflector(cluster, "specon", "specon-tls", served)

    def seen(data):
        secret = {"metadata": {"name": "specon-tls", "namespace": "specon", "uid": "1"}, "data": data}
        reflector._put(("specon", "specon-tls"), reflector._slimmed(secret))

    seen({})
    assert not served.loaded.is_set()
    bundle = await store.keep()
    seen(cluster.secret["data"])
    assert served.trusted == bundle.trusted
    seen({**cluster.secret["data"], "tls.key": "eA=="})
    assert served.trusted == bundle.trusted
    reflector._put(("specon", "specon-tls"), None)
    assert served.loaded.is_set()


# -- pods -------------------------------------------------------------------------------------


def _pod(name, authorities, **metadata):
    annotations = {"specon.io/inject": "true"} | (
        {} if authorities is None else {"specon.io/ca": authorities}
    )
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "annotations": annotations, **metadata}
    }


async def _sleep(_):
    pass


def _authorities_of(cluster):
    return {
        name: one["metadata"]["annotations"].get("specon.io/ca")
        for (plural, name), one in cluster.objects.items()
        if plural == "pods"
    }


async def test_pods_get_the_new_authorities(cluster):
    """Those that have others; not those that need none, and not those that end."""
    for one in (
        _pod("a", "old"),
        _pod("b", "new"),
        _pod("c", None),
        _pod("d", "old", deletionTimestamp="2026-03-01T00:00:00Z"),
        _pod("e", "old"),
    ):
        cluster.put("pods", one)
    authorities = PodAuthorities(cluster, lambda: "new", sleep=_sleep)
    assert await authorities.keep("new") == 2
    assert _authorities_of(cluster) == {"a": "new", "b": "new", "c": None, "d": "old", "e": "new"}
    assert await authorities.keep("new") == 0


async def test_pods_of_namespaces_that_another_manager_looks_after_are_left_alone(cluster):
    """Their authorities are that manager's."""
    cluster.put("pods", _pod("a", "old"))
    theirs = PodAuthorities(cluster, lambda: "new", namespaces=("elsewhere",), sleep=_sleep)
    assert await theirs.keep("new") == 0
    ours = PodAuthorities(cluster, lambda: "new", namespaces=("ml",), sleep=_sleep)
    assert await ours.keep("new") == 1


async def test_a_pod_that_was_replaced_meanwhile_stops_nobody(cluster):
    """The next ones are looked at all the same."""
    for name in "abc":
        cluster.put("pods", _pod(name, "old"))

    async def sleep(_):
        del cluster.objects["pods", "b"]
        authorities._sleep = _sleep

    authorities = PodAuthorities(cluster, lambda: "new", sleep=sleep)
    assert await authorities.keep("new") == 2
    assert _authorities_of(cluster) == {"a": "new", "c": "new"}


async def test_pods_are_looked_at_when_something_changed(cluster):
    """And once an hour, for those that another replica's older settings made."""
    trusted, looks, lists = ["", "x", "x", "y"], 0, []
    pages = cluster.pages

    def counted(*what, **how):
        lists.append(looks)
        return pages(*what, **how)

    cluster.pages = counted

    async def sleep(_):
        nonlocal looks
        looks += 1
        if looks == 64:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await PodAuthorities(cluster, lambda: trusted[min(looks, 3)], sleep=sleep).run()
    assert lists == [1, 3, 63]


async def test_without_the_lead_no_pod_is_written(cluster):
    """The new leader writes it."""
    cluster.put("pods", _pod("a", "old"))
    authorities = PodAuthorities(cluster, lambda: "new", fence=lambda: False, sleep=_sleep)
    assert await authorities.keep("new") == 0
    assert cluster.writes == []
