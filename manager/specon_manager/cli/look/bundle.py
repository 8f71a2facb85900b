"""`specon support-bundle`: what somebody who helps needs to know, in one file, without secrets."""

import argparse
import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from specon_manager import __version__
from specon_manager.cli.output import to_json
from specon_manager.cli.remote.bundle_bounds import FOLDER, MOST_BYTES, MOST_FILE_BYTES
from specon_manager.cli.remote.choice import add_remote_arguments, run_remote
from specon_manager.cli.remote.redaction import scrub
from specon_manager.cli.remote.remote import Remote
from specon_manager.usage import UsageError
from specon_manager.views.names import printable

_PACKAGES: Final = (
    "aiohttp",
    "cryptography",
    "kubernetes",
    "msgspec",
    "prometheus-client",
    "rich",
    "watchdog",
)


class BundleFile(Struct, frozen=True):
    """A file in the bundle."""

    name: str
    bytes: int


class SupportBundle(Struct, frozen=True, kw_only=True):
    """What `specon support-bundle --output json` prints."""

    file: str
    bytes: int
    parts: tuple[BundleFile, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to (specon-support-TIME.tar.gz here); never overwritten",
    )
    add_remote_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    """Collect and write; 0."""
    return run_remote(arguments, lambda remote: _collect(remote, arguments))


async def _collect(remote: Remote, arguments: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    path = arguments.out or Path(f"specon-support-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    files = dict(await remote.evidence())
    files["versions.json"] = _versions(remote.where, now)
    bounded = cut_files(files)
    content = archive(bounded)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"--out: {path}: {error.strerror}; name another file") from error
    parts = tuple(BundleFile(name, len(part)) for name, part in sorted(bounded.items()))
    if arguments.output == "json":
        sys.stdout.write(f"{to_json(SupportBundle(file=str(path), bytes=len(content), parts=parts))}\n")
        return 0
    for part in parts:
        print(f"{part.bytes:>10}  {printable(part.name)}")
    print(
        f"{path}: {len(content)} bytes; look into it before you send it: job names and node names are in it"
    )
    return 0


def cut_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files, cut where they are too long, the largest most; `cut.txt` names those that were."""
    kept: dict[str, bytes] = {}
    cut = []
    room = MOST_BYTES
    for name, content in sorted(files.items(), key=lambda item: (len(item[1]), item[0])):
        most = min(MOST_FILE_BYTES, room)
        if len(content) > most:
            cut.append(f"{name}: {most} of {len(content)} bytes")
        kept[name] = content[:most]
        room -= len(kept[name])
    if cut:
        kept["cut.txt"] = "\n".join([*cut, ""]).encode()
    return kept


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a tar.gz of the files, each once more without whatever looks like a secret."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in sorted(files.items()):
            clean = scrub(content.decode(errors="replace")).encode()
            info = tarfile.TarInfo(f"{FOLDER}{name}")
            info.size, info.mtime, info.mode = len(clean), int(time.time()), 0o600
            tar.addfile(info, io.BytesIO(clean))
    return made.getvalue()


def _versions(where: str, now: datetime) -> bytes:
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "not installed"
    told = {
        "manager": where,
        "at": now.isoformat(timespec="seconds"),
        "specon": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": packages,
    }
    return (json.dumps(told, indent=1) + "\n").encode()
