"""What is made of a checkpoint path before the trainer starts."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from specon_manager.backends.local.backend import LocalBackend, LocalSettings
from specon_manager.backends.local.jobs import job_spec, read_job
from specon_manager.backends.local.nodes import VirtualNode
from specon_manager.model.actions import StartReplica

NODE = VirtualNode("node-0", (0,))


@pytest.mark.parametrize("path", ["{directory}/saved/model.pt", "{directory}/saved"])
async def test_the_folder_is_there_and_the_file_is_not(tmp_path: Path, path: str) -> None:
    """A pod is described again after its trainer wrote its one file: that file is never a folder."""
    settings = LocalSettings(
        directory=tmp_path,
        nodes=(NODE,),
        working_directory=tmp_path,
        environment=os.environ,
        samples=tmp_path,
    )
    backend = LocalBackend(settings, manager_url=lambda: "http://127.0.0.1:1", token=lambda *_: "token")
    job = read_job(msgspec.json.encode({"name": "a", "command": "true", "checkpoint_path": path}))
    template = dict(job_spec(job).template)
    order = StartReplica(
        replica="default/a/worker/0", node=NODE.name, reason="test", start=1, template=template
    )
    for _ in range(2):
        spec = backend._specify(order, NODE, "first")
        directory = Path(spec.directory)
        assert f"--checkpoint-path={path.format(directory=directory)}" in (spec.sidecar_command or ())
        assert (directory / "saved").is_dir()
        (directory / "saved" / "model.pt").write_bytes(b"weights")
