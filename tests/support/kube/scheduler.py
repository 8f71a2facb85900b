"""A real kube-scheduler against a real API server whose nodes are objects alone: nothing ever runs there."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.kube.client import Endpoint

_PROGRAM = "kube-scheduler"


def program(programs: Path | None) -> Path | None:
    """Return the scheduler among the programs, None where there is none."""
    found = None if programs is None else programs / _PROGRAM
    return found if found is not None and os.access(found, os.X_OK) else None


def kubeconfig(folder: Path, endpoint: Endpoint) -> Path:
    """Write how to reach that server, and return the file."""
    cluster = {"server": endpoint.url, "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bare", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": endpoint.token}}],
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "user"}}],
        "current-context": "bare",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@contextlib.contextmanager
def scheduling(folder: Path, scheduler: Path, access: Path) -> Iterator[None]:
    """Run the scheduler for the pods of the server that a kubeconfig names."""
    command = [
        str(scheduler),
        *(f"--{each}kubeconfig={access}" for each in ("", "authentication-", "authorization-")),
        "--authentication-tolerate-lookup-failure=true",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    with (
        (folder / "scheduler.log").open("ab") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
