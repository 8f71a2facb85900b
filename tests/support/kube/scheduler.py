"""A real kube-scheduler against a real API server whose nodes are objects alone: nothing ever runs there."""

import contextlib
import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

from support.kube.client import Endpoint

_PROGRAM = "kube-scheduler"


def program(programs: Path | None) -> Path | None:
    """Return the scheduler among the programs, None where there is none."""
    found = None if programs is None else programs / _PROGRAM
    return found if found is not None and os.access(found, os.X_OK) else None


@contextlib.contextmanager
def scheduling(folder: Path, scheduler: Path, endpoint: Endpoint) -> Iterator[None]:
    """Run the scheduler for the pods of that server."""
    assert isinstance(endpoint.tls, ssl.SSLContext)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": endpoint.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": {"token": endpoint.token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig = folder / "scheduler.kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    command = [
        str(scheduler),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
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
