"""A pod with the helper, played from the manifest that the webhook makes."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile

import pytest
from aiohttp import web

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.objects.annotation_reader import read_options
from support.kube.pods import annotated, pod, trainer

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]

TRAINER = """
import pathlib, sys, time
import specon
begun = specon.resume_path()
step = int(pathlib.Path(begun).name) if begun else 0
specon.announce("a loop", saves=True)
while step < 100_000:
    step += 1
    time.sleep(0.01)
    specon.report(step, loss=1 / step, total=100_000)
    if specon.checkpoint_requested():
        saved = pathlib.Path(sys.argv[1]) / str(step)
        saved.write_bytes(b"weights")
        specon.saved(str(saved), step)
"""


class Manager:
    """Asks for one checkpoint as soon as there is a report, and says from where to go on."""

    def __init__(self, resumable=None):
        self.resumable, self.reports = resumable, []
        self.heard, self.answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def report(self, request):
        self.reports.append(await request.json())
        if self.reports[-1].get("first"):
            self.heard.set()
        return web.Response(status=204)

    async def instructions(self, request):
        await self.heard.wait()
        given = [] if self.answer.done() or request.query["known"] else [self.instruction]
        if not given:
            await asyncio.sleep(1)
        return web.json_response({"schema": 1, "instructions": given})

    instruction = {"type": "checkpoint", "id": "c1", "seconds_left": 30}  # noqa: RUF012 - never changed

    async def acknowledge(self, request):
        self.answer.set_result(await request.json())
        return web.Response(status=204)

    async def checkpoint(self, _):
        return web.json_response({"schema": 1, "checkpoint": self.resumable})

    @contextlib.asynccontextmanager
    async def serving(self):
        application = web.Application()
        application.router.add_post("/v1/reports", self.report)
        application.router.add_get("/v1/instructions", self.instructions)
        application.router.add_post("/v1/acknowledgements", self.acknowledge)
        application.router.add_get("/v1/checkpoint", self.checkpoint)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def running(*command, **environment):
    """Run a process with this environment alone."""
    process = await asyncio.create_subprocess_exec(
        *command, env={"PATH": os.environ["PATH"], **environment}, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def played(manager_url, data):
    """Run the containers of an injected pod in their order; its volumes are folders."""
    spec = {"containers": [trainer(volumeMounts=[{"name": "data", "mountPath": str(data)}])]}
    given = pod(annotations=annotated(instrument="true", heartbeat="1s"), spec=spec)
    settings = InjectionSettings(image="specon/sidecar:1", manager=manager_url)
    done = inject(given, "ml", read_options(given["metadata"]["annotations"]), settings, {}).pod
    volume = tempfile.mkdtemp(dir="/tmp")  # the path of a socket is short

    def here(text):
        return text.replace("/run/specon-trainer", volume).replace("/run/specon", volume)

    copier, sidecar = done["spec"]["initContainers"]
    (train,) = done["spec"]["containers"]
    module = (sys.executable, "-m", "specon_sidecar")
    options = [here(one).replace("$(SPECON_POD_UID)", "uid") for one in sidecar["args"]]
    options = [one for one in options if not one.startswith("--token-file")]
    variables = {one["name"]: here(one["value"]) for one in train["env"]}
    try:
        async with running(*module, *(here(one) for one in copier["args"])) as copying:
            assert await copying.wait() == 0
        async with (
            running(*module, *options),
            running(sys.executable, "-c", TRAINER, str(data), **variables) as training,
        ):
            yield training
    finally:
        shutil.rmtree(volume)


async def test_a_loop_of_its_own_is_heard_asked_and_saves(tmp_path):
    """No log, no folder of checkpoints: what it saved is verified where it said that it is."""
    manager = Manager()
    async with manager.serving() as url, played(url, tmp_path), asyncio.timeout(60):
        answer = await manager.answer
    assert answer["done"], answer
    saved = answer["checkpoint"]
    assert saved["path"] == str(tmp_path / str(saved["step"]))
    assert manager.reports[-1]["format"] == "hook"
    assert manager.reports[-1]["total_steps"] == 100_000


async def test_the_next_pod_goes_on_from_there(tmp_path):
    """The manager says from where, the sidecar looks whether it is whole, and the script asks for it."""
    (tmp_path / "500").write_bytes(b"weights")
    manager = Manager({"step": 500, "path": str(tmp_path / "500"), "digest": "0" * 64})
    async with manager.serving() as url, played(url, tmp_path), asyncio.timeout(60):
        await manager.heard.wait()
    assert manager.reports[-1]["first"]["step"] == 501
