"""Builds what a Dockerfile of this project carries into its image, by the Dockerfile's own steps.

Steps run as they are written, in a folder in place of the root. What pip installs is fetched once, by the
hashes of the locks, and kept beside the user's other caches.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Final

import pytest

from support.packaging.dockerfile import ROOT, copied, instructions, locked, read

_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specon-tests"
_SECONDS: Final = 240
_LOCK: Final = "locks/manager.txt"
"""The sidecar needs nothing that the manager does not, in the same versions: nothing is fetched twice."""


def build(file: Path, folder: Path) -> Path:
    """Carry out the first stage below the folder and return what the second one takes of it.

    Skips the test where what pip installs cannot be fetched. Raises AssertionError, with the output of the
    step, where one fails.
    """
    image = read(file)
    variables = {
        **image.arguments,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels()),
        "PIP_CONFIG_FILE": os.devnull,
        # Half of the time, for modules that no test imports; what is ours is compiled by a step of its own.
        "PIP_NO_COMPILE": "1",
    }
    workdir, stages = "/", 0
    for name, text in instructions(file):
        stages += name == "FROM"
        if stages > 1:
            break
        if name == "WORKDIR":
            workdir = text
            _below(folder, text).mkdir(parents=True)
        elif name == "COPY":
            source, target = text.split()
            copied(source, _below(folder, str(PurePosixPath(workdir) / target)))
        elif name == "RUN":
            command = text.replace(image.prefix, str(_below(folder, image.prefix)))
            step = subprocess.run(
                ["sh", "-ec", command],
                cwd=_below(folder, workdir),
                env=variables,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            assert step.returncode == 0, f"{file}: RUN {text}\n{step.stdout}{step.stderr}"
    return _below(folder, image.prefix)


def wheels() -> Path:
    """Return a folder with the wheels of both images; skips the test where they cannot be fetched."""
    content = (ROOT / _LOCK).read_bytes()
    folder = _CACHE / f"wheels-{hashlib.sha256(content).hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes run the tests at the same time: the first fetches, the others wait for it.
    with (folder / "lock").open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if len(list(folder.glob("*.whl"))) == len(locked(_LOCK)):
            return folder
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
        command += ["--disable-pip-version-check", "--retries=0", "--only-binary=:all:", "--require-hashes"]
        command += [f"--dest={folder}", f"--requirement={ROOT / _LOCK}"]
        done = subprocess.run(command, timeout=_SECONDS, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"what {_LOCK} names cannot be fetched: {done.stderr.strip()[-300:]}")
    return folder


def _below(folder: Path, path: str) -> Path:
    return folder / path.lstrip("/")
