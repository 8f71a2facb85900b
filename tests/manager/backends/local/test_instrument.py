"""What an instrumented trainer finds in its environment, and where its sidecar listens."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.instrument import hook_socket, take_away_socket
from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.model.actions import StartReplica
from specon_sidecar.copy_helper import helper_folder

NODE = VirtualNode("node-0", (0,))


def specified(folder: Path, inherited: dict[str, str], **job: object):
    settings = LocalSettings(
        directory=folder, nodes=(NODE,), working_directory=folder, environment=inherited, samples=folder
    )
    backend = LocalBackend(settings, manager_url=lambda: "http://127.0.0.1:1", token=lambda *_: "token")
    template = job_spec(read_job(msgspec.json.encode({"name": "a", "command": "true", **job}))).template
    order = StartReplica(
        replica="default/a/worker/0", node=NODE.name, reason="test", start=1, template=dict(template)
    )
    return backend._specify(order, NODE, "0001")


@pytest.mark.parametrize(
    ("inherited", "own", "behind"),
    [
        ({}, {}, []),
        ({"PYTHONPATH": ""}, {}, []),
        ({"PYTHONPATH": "/theirs"}, {}, ["/theirs"]),
        ({"PYTHONPATH": "/theirs"}, {"PYTHONPATH": "/of:/job"}, ["/of", "/job"]),
    ],
)
def test_the_helper_stands_before_what_is_there(tmp_path: Path, inherited, own, behind) -> None:
    """Whatever the job or the user named stays behind it, and an empty name is none."""
    spec = specified(tmp_path, inherited, instrument=True, environment=own)
    assert spec.environment["PYTHONPATH"].split(os.pathsep) == [str(helper_folder()), *behind]
    socket = spec.environment["SPECON_SOCKET"]
    assert f"--hook={socket}" in (spec.sidecar_command or ())
    assert "--checkpoint=hook" in (spec.sidecar_command or ())
    assert spec.environment["SPECON_TOKEN_FILE"] == str(Path(socket).with_name("token"))
    assert f"--checkpoint-path={spec.environment['SPECON_CHECKPOINTS']}" in (spec.sidecar_command or ())


def test_a_job_that_is_not_instrumented_is_left_alone(tmp_path: Path) -> None:
    """But for this: what it prints is seen at once, unless it says otherwise."""
    spec = specified(tmp_path, {})
    assert spec.environment.keys().isdisjoint({"SPECON_SOCKET", "SPECON_TOKEN_FILE", "PYTHONPATH"})
    assert spec.environment["PYTHONUNBUFFERED"] == "1"
    assert specified(tmp_path, {}, environment={"PYTHONUNBUFFERED": ""}).environment["PYTHONUNBUFFERED"] == ""


def test_a_socket_has_an_address_wherever_the_state_is(tmp_path: Path) -> None:
    """Its folder is private; in place of a path that is too long there is a short one while the pod lives."""
    short = hook_socket(tmp_path / "0001")
    assert short.is_relative_to(tmp_path)
    assert stat.S_IMODE(short.parent.stat().st_mode) == 0o700
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    spec = specified(deep, {}, instrument=True)
    folder = Path(spec.environment["SPECON_SOCKET"]).parent
    try:
        assert len(spec.environment["SPECON_SOCKET"]) < 108
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        take_away_socket(spec)
        assert not folder.exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
