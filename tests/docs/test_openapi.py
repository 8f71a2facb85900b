"""docs/openapi.yaml is a valid description of the server: its routes, and what they answer."""

import asyncio
import threading
from pathlib import Path

import hypothesis
import pytest
import schemathesis
import yaml
from prometheus_client import CollectorRegistry
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from specon_manager.runtime.message_rate import RateLimits
from specon_manager.runtime.server import Server
from specon_manager.runtime.tokens import Tokens
from specon_manager.serving.session import read_submitted_job
from support.decisions.cluster import replica_of
from support.runtime.quiet_manager import Manager

A = replica_of("a")
FIRST = "0001"
EXAMPLES = 12
OF_SIDECARS = {
    "/v1/reports",
    "/v1/instructions",
    "/v1/acknowledgements",
    "/v1/checkpoint",
    "/v1/output",
    "/v1/turns",
}
UNBOUNDED = RateLimits(per_second=1e6, burst=1_000_000)


@pytest.fixture(scope="module")
def document(root):
    return yaml.safe_load((root / "docs/openapi.yaml").read_text())


class Served:
    """A server and its controller on a loop of their own: what tests it is not asynchronous."""

    def __init__(self, folder):
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    async def _run(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with Manager(self._folder).at_work() as manager:
            await manager.running("a")
            self.tokens = Tokens(self._folder)
            server = Server(
                manager.controller,
                self.tokens,
                CollectorRegistry(),
                read_submitted_job,
                rate_limits=UNBOUNDED,
            )
            self.port = await server.start("127.0.0.1", 0)
            self._ready.set()
            await self._over.wait()
            await server.stop()

    def headers(self, path):
        token = self.tokens.sidecar(A, FIRST) if path in OF_SIDECARS else self.tokens.owner
        return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("served")) as server:
        yield server


def test_it_is_valid(document):
    """By OpenAPI's own schema, and every reference leads somewhere."""
    schemathesis.openapi.from_dict(document).validate()
    names = set(document["components"]["schemas"])

    def references(node):
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    found = set(references(document))
    assert found
    for reference in found:
        kind, name = reference.removeprefix("#/components/").split("/")
        assert name in document["components"][kind], reference
    used = {one.rpartition("/")[2] for one in found if "/schemas/" in one}
    assert names == used


def test_it_has_the_server_s_routes_and_no_others(document, tmp_path):
    """Each path with each of its methods, both ways."""
    server = Server(None, Tokens(tmp_path), CollectorRegistry(), read_submitted_job)
    served = {
        (route.resource.canonical, route.method.lower())
        for route in server.application().router.routes()
        if route.method != "HEAD"
    }
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == served


def test_every_problem_says_what_is_wrong(document):
    """Each operation names the errors that it can answer, and those that let come again say when."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            problems = {int(status) for status in operation["responses"] if int(status) >= 400}
            if path.startswith("/v1/"):
                assert {401, 403, 503} <= problems, (path, method)
    for status in ("429", "503"):
        assert "Retry-After" in document["components"]["responses"][status]["headers"]


def _operations():
    described = schemathesis.openapi.from_path(Path(__file__).parents[2] / "docs" / "openapi.yaml")
    return [one.ok() for one in described.get_all_operations()]


CONFORMANCE = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def _cases():
    """Yield each operation with good and, where it is given anything, with bad questions."""
    for operation in _operations():
        name = f"{operation.method} {operation.path}"
        yield pytest.param(operation, schemathesis.GenerationMode.POSITIVE, id=f"{name}, good")
        if operation.path.startswith("/v1/"):
            yield pytest.param(operation, schemathesis.GenerationMode.NEGATIVE, id=f"{name}, bad")


@pytest.mark.parametrize(("operation", "mode"), list(_cases()))
def test_answers_are_as_described(served, operation, mode):
    """Whatever is sent, right or wrong, no answer is a 5xx without need, and each is as the document says."""
    strategies = operation.as_strategy(generation_mode=mode)

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
        database=None,
    )
    @hypothesis.given(strategies)
    def holds(case):
        _bound_wait(case)
        if mode is schemathesis.GenerationMode.POSITIVE:
            _speak_for_the_known(case)
        answer = case.call(
            base_url=f"http://127.0.0.1:{served.port}", headers=served.headers(operation.path), timeout=10
        )
        case.validate_response(answer, checks=[c for c in CONFORMANCE if _applies(c, answer)])

    holds()


def _bound_wait(case):
    """Let no good question wait: it may for a minute."""
    if "wait" in (case.query or {}):
        wait = case.query["wait"]
        if isinstance(wait, int | float) and 0 <= wait <= 60:
            case.query["wait"] = 0


def _speak_for_the_known(case):
    """Name the replica that runs: for a made-up one nothing else would be looked at."""
    for given in (case.body, case.query):
        if isinstance(given, dict) and {"replica", "incarnation"} <= given.keys():
            given |= {"replica": A, "incarnation": FIRST}


def _applies(check, answer):
    # 503 is no failure of ours: another incarnation than the running one is to come again.
    return not (check is not_a_server_error and answer.status_code == 503)
