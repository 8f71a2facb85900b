"""Programs that tests use where they are there: $NAME in capitals, in PATH, or in Debian's package of them.

The package is unpacked beside the user's other caches; nothing is installed, and no rights are needed.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specon-tests"
_SECONDS: Final = 120


def program(name: str) -> str:
    """Return the path of a program; skips the test where it is not there."""
    found = os.environ.get(name.upper()) or shutil.which(name) or _unpacked(name)
    if found is None:
        pytest.skip(f"no {name}: name one in ${name.upper()} or put it in PATH (Debian: prometheus)")
    return found


@cache
def _unpacked(name: str, package: str = "prometheus") -> str | None:
    """Return the program out of Debian's package, fetched once; None where it cannot be had."""
    folder = _CACHE / package
    binary = folder / "usr" / "bin" / name
    if not binary.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            folder.mkdir(parents=True, exist_ok=True)
            # Several processes run the tests at the same time: the first fetches, the others wait for it.
            with (folder / "lock").open("a+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not binary.exists():
                    _fetch(package, folder)
    return str(binary) if binary.exists() else None


def _fetch(package: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = ["apt-get", "--option=Acquire::Retries=0", "download", package]
        done = subprocess.run(
            command, cwd=scratch, timeout=_SECONDS, capture_output=True, text=True, check=False
        )
        archives = sorted(Path(scratch).glob("*.deb"))
        if not archives:
            sys.stderr.write(f"no {package} could be fetched: {done.stderr.strip()}\n")
            return
        subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(folder)], check=True, timeout=_SECONDS)
