"""The trainer's helper in the way of a local trainer: its environment, and where the socket is."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specon_sidecar.copy_helper import helper_folder
from specon_sidecar.parse import socket_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from specon_manager.backends.local.pod_files import PodSpec

UNBUFFERED: Final = {"PYTHONUNBUFFERED": "1"}
"""Of every trainer: into a file Python would print a block at a time, minutes late."""
_PREFIX: Final = "specon-"


def hook_socket(incarnation: Path) -> Path:
    """Return where the sidecar of an incarnation listens, in a folder that its owner alone may enter.

    It is a folder of the incarnation; where that is too long for the address of a socket, one among the
    temporary ones. Raises OSError.
    """
    socket = incarnation / "hook" / "s"
    try:
        socket_path(str(socket))
    except ValueError:
        return Path(tempfile.mkdtemp(prefix=_PREFIX)) / "s"
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return socket


def instrument_environment(environment: Mapping[str, str], socket: Path, checkpoints: str) -> dict[str, str]:
    """Return what a trainer finds the helper by; a PYTHONPATH that is there stays behind it.

    Raises FileNotFoundError where there is no helper.
    """
    behind = environment.get("PYTHONPATH", "")
    return {
        # An empty entry would be the working directory.
        "PYTHONPATH": os.pathsep.join([str(helper_folder()), *([behind] if behind else [])]),
        "SPECON_SOCKET": str(socket),
        "SPECON_TOKEN_FILE": str(socket.with_name("token")),
        "SPECON_CHECKPOINTS": checkpoints,
    }


def take_away_socket(spec: PodSpec) -> None:
    """Remove the folder of the socket of an incarnation that is over, where it is a temporary one."""
    folder = Path(spec.environment.get("SPECON_SOCKET", "")).parent
    if folder.name.startswith(_PREFIX) and folder.parent == Path(tempfile.gettempdir()):
        shutil.rmtree(folder, ignore_errors=True)
