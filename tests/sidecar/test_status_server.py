"""Kubeflow Trainer's status protocol, as its clients speak it."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest

from specon_sidecar.hook.messages import Progress
from specon_sidecar.status_server.messages import StatusReader
from specon_sidecar.status_server.server import StatusServer

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/bert/status"


def body(**metrics):
    """Return a report as transformers' KubeflowCallback makes it."""
    status = {
        "lastUpdatedTime": "2026-11-23T07:30:00+00:00",
        "progressPercentage": 12,
        "estimatedRemainingSeconds": 88,
        "metrics": [{"name": name, "value": str(value)} for name, value in metrics.items()],
    }
    return json.dumps({"trainerStatus": status}).encode()


def test_steps_totals_and_epochs_are_metrics():
    """All else is a value."""
    found = StatusReader().take(body(loss=0.5, current_step=12, total_steps=100, current_epoch=1.25))
    assert found == Progress(step=12, total=100, epoch=1.25, values={"loss": 0.5})


def test_what_is_only_repeated_is_no_new_value():
    """The callback says with each step what was logged last: a curve of that would be a staircase."""
    reader = StatusReader()
    assert reader.take(body(loss=0.5, eval_loss=0.7, current_step=10)).values == {
        "loss": 0.5,
        "eval_loss": 0.7,
    }
    assert reader.take(body(loss=0.5, eval_loss=0.7, current_step=15)).values == {}
    assert reader.take(body(loss=0.4, eval_loss=0.7, current_step=20)).values == {"loss": 0.4}


@pytest.mark.parametrize(
    "given",
    [
        b"{}",
        b'{"trainerStatus": null}',
        body(loss=0.5),
        body(loss=0.5, current_step="nan"),
        body(current_step=-1),
        body(current_step=1.5),
        body(current_step="1e300"),
    ],
)
def test_without_a_step_nothing_is_taken(given):
    """The first report of a training has none."""
    assert StatusReader().take(given) is None


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 60_000,
        b'{"trainerStatus": {"metrics": [{"name": "loss", "value": 1}]}}',
        body(**{f"m{n}": 1 for n in range(300)}),
    ],
    ids=["nothing", "list", "bytes", "deep", "number", "many"],
)
def test_what_is_no_report_is_said(given):
    """Any process in the pod may send it."""
    with pytest.raises(ValueError, match=r"."):
        StatusReader().take(given)


def test_of_many_values_some_are_taken():
    """And none that is not finite."""
    many = {f"m{n}": n for n in range(200)}
    found = StatusReader().take(body(current_step=1, bad="inf", word="x", **many))
    assert len(found.values) == 64
    assert not {"bad", "word"} & set(found.values)


@pytest.fixture
async def served():
    """Give the port of a server, and what it took."""
    taken = []
    server = StatusServer(0, "pod-uid", taken.append)
    serving = asyncio.create_task(server.serve())
    yield await server.listening, taken
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def sent(port, data, path=PATH, token="pod-uid"):
    """Send as the callback does; return the status."""

    def send():
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{port}{path}"
        request = urllib.request.Request(url, data=data, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=5, context=None) as response:
                return response.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    return await asyncio.to_thread(send)


async def test_a_report_is_handed_on(served):
    """Whatever job and namespace its path names."""
    port, taken = served
    assert await sent(port, body(loss=0.5, current_step=12)) == 200
    assert await sent(port, body(progress=1)) == 200
    assert taken == [Progress(step=12, values={"loss": 0.5})]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"token": "other"}, 403),
        ({"path": "/metrics"}, 404),
        ({"data": b"{"}, 422),
        ({"data": b" " * 70_000}, 413),
    ],
)
async def test_anything_else_is_refused(served, changes, status):
    """With a status that the protocol's clients take for an error."""
    port, taken = served
    assert await sent(port, **{"data": body(current_step=1), **changes}) == status
    assert taken == []


async def test_who_says_nothing_holds_nobody_up(served):
    """A connection that sends half a head, and a head without end."""
    port, taken = served
    _, slow = await asyncio.open_connection("127.0.0.1", port)
    slow.write(b"POST ")
    reader, long = await asyncio.open_connection("127.0.0.1", port)
    long.write(b"POST " + b"x" * 40_000)
    assert b" 431 " in await reader.readline()
    assert await sent(port, body(current_step=1)) == 200
    assert len(taken) == 1
    for writer in (slow, long):
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def test_who_comes_while_eight_are_heard_is_told_to_come_again(served):
    """With a time and a sentence, however long its report is; and is heard once there is room."""
    port, taken = served
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
    for _, writer in slow:
        writer.write(b"POST ")
        await writer.drain()

    def refused():
        url, headers = f"http://127.0.0.1:{port}{PATH}", {"Authorization": "Bearer pod-uid"}
        long = body(current_step=1) + b" " * 60_000
        try:
            urllib.request.urlopen(urllib.request.Request(url, data=long, headers=headers), timeout=5)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Retry-After"], json.load(error)["message"]

    answers = await asyncio.gather(*(asyncio.to_thread(refused) for _ in range(12)))
    assert set(answers) == {(503, "1", "8 requests are under way: come again in 1 s")}
    for _, writer in slow:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    async with asyncio.timeout(5):
        while await sent(port, body(current_step=1)) != 200:  # noqa: ASYNC110  (it hears of their end soon)
            await asyncio.sleep(0.05)
    assert len(taken) == 1


async def test_a_port_that_is_taken_is_said(served, caplog):
    """And the sidecar goes on without."""
    port, _ = served
    await StatusServer(port, "x", print).serve()
    assert f"no status is taken on port {port}: " in caplog.text
