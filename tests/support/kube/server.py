"""A real etcd and kube-apiserver for a test run, without controllers, scheduler and nodes."""

import base64
import contextlib
import json
import os
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from support.kube.client import Endpoint
from support.ports import free_port

_PLACES = ("/usr/local/kubebuilder/bin",)
_PROGRAMS = ("etcd", "kube-apiserver")
_LONGEST = 60.0
_AGE = 20
TOKEN = "contract"


def assets() -> Path | None:
    """Return the folder with the programs (KUBEBUILDER_ASSETS, or the usual one), None without them."""
    for place in (os.environ.get("KUBEBUILDER_ASSETS", ""), *_PLACES):
        if place and all(os.access(Path(place) / program, os.X_OK) for program in _PROGRAMS):
            return Path(place)
    return None


@contextlib.contextmanager
def running(folder: Path, programs: Path) -> Iterator[Endpoint]:
    """Run both in a folder; TimeoutError with the end of the log where they do not come up."""
    keys = _keys(folder)
    client, peer, port = free_port(), free_port(), free_port()
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{TOKEN},contract,contract,"system:masters"\n')
    etcd = [
        str(programs / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
    ]
    server = [
        str(programs / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{client}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={keys}",
        f"--service-account-signing-key-file={keys}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",
        "--disable-admission-plugins=ServiceAccount",  # nobody makes the default accounts here
        "--allow-privileged=true",
        *_newer(programs),
    ]
    with run_program(etcd, folder / "etcd.log") as store, contextlib.ExitStack() as stack:
        _age(client, store, folder / "etcd.log")
        process = stack.enter_context(run_program(server, folder / "server.log"))
        certificate = folder / "certificates" / "apiserver.crt"
        url = f"https://127.0.0.1:{port}"
        _wait(url, certificate, process, folder / "server.log")
        tls = ssl.create_default_context(cafile=str(certificate))
        yield Endpoint(url, tls, TOKEN, "kube-apiserver", certificate)


def _newer(programs: Path) -> Sequence[str]:
    """Return what switches on the kinds that a server of 1.36 has and does not serve by itself."""
    said = subprocess.run(
        [programs / "kube-apiserver", "--version"], capture_output=True, check=True, text=True
    )
    found = re.search(r"v1\.(\d+)\.", said.stdout)
    if found is None or int(found[1]) < 36:
        return ()
    return "--runtime-config=resource.k8s.io/v1beta2=true", "--feature-gates=DRADeviceTaintRules=true"


def kubeconfig(folder: Path, endpoint: Endpoint) -> Path:
    """Write how programs and clients find such a server and are let in."""
    name, path = "contract", folder / "kubeconfig"
    cluster = {"server": endpoint.url, "certificate-authority": str(endpoint.authority)}
    context = {"cluster": name, "user": name}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": endpoint.token}}],
        "contexts": [{"name": name, "context": context}],
    }
    path.write_text(json.dumps(whole))
    return path


@contextlib.contextmanager
def controlling(folder: Path, programs: Path, config: Path, *controllers: str) -> Iterator[None]:
    """Run these controllers against such a server."""
    command = [
        str(programs / "kube-controller-manager"),
        f"--kubeconfig={config}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        f"--secure-port={free_port()}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'controllers'}",
    ]
    with run_program(command, folder / "controllers.log"):
        yield


@contextlib.contextmanager
def scheduling(folder: Path, programs: Path, config: Path) -> Iterator[None]:
    """Run the scheduler against such a server."""
    command = [
        str(programs / "kube-scheduler"),
        f"--kubeconfig={config}",
        "--leader-elect=false",
        f"--secure-port={free_port()}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / 'scheduler'}",
    ]
    with run_program(command, folder / "scheduler.log"):
        yield


@contextlib.contextmanager
def run_program(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that writes to this log, and end it at the end."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _age(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Let the store reach a revision that the API server's caches, which start later, know nothing of."""
    body = json.dumps({"key": base64.b64encode(b"/age").decode(), "value": ""}).encode()
    ends = time.monotonic() + _LONGEST
    done = 0
    while done < _AGE:
        if time.monotonic() > ends or process.poll() is not None:
            raise TimeoutError(f"etcd did not come up; the end of its log:\n{log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v3/kv/put", data=body, timeout=2):
                done += 1
        except OSError:
            time.sleep(0.1)


def _wait(url: str, certificate: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + _LONGEST
    while time.monotonic() < ends and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            context = ssl.create_default_context(cafile=str(certificate))
            asked = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(asked, timeout=2, context=context) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.2)
    raise TimeoutError(f"the API server did not come up; the end of its log:\n{log.read_text()[-2000:]}")


def _keys(folder: Path) -> Path:
    """Make the key that signs the tokens of service accounts."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = folder / "accounts.key"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return path
