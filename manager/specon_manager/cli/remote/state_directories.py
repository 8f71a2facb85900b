"""The state directories below the working directory: of several the one whose manager is at work."""

import contextlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from specon_manager.runtime.state_directory import read_address
from specon_manager.usage import UsageError

OBSERVER: Final = Path("observe.specon")
"""Where an observer keeps what it has seen. Only `--state` names it: by default the cluster is meant."""
_SECONDS: Final = 0.5


def directories_here() -> list[Path]:
    """Return those in which a manager was ever started, but for that of an observer."""
    found = sorted(path.parent for path in Path().glob("*.specon/manager.json"))
    return [path for path in found if path != OBSERVER]


def choose_only(found: Sequence[Path]) -> Path | None:
    """Return the one that is meant: the only one, or the only one whose manager is at work; None for none.

    Raises UsageError where there are several, with which of them are live.
    """
    if len(found) < 2:  # noqa: PLR2004 - of one there is no choice
        return found[0] if found else None
    live = [path for path in found if _is_live(path)]
    if len(live) == 1:
        return live[0]
    names = ", ".join(map(str, live or found))
    words = "several managers are at work here" if live else "no manager is at work in those found here"
    raise UsageError(f"--state: name the manager's directory; {words}: {names}")


def _is_live(path: Path) -> bool:
    address = read_address(path)
    if address is None:
        return False
    with contextlib.suppress(OSError):
        os.kill(address.pid, 0)
        socket.create_connection(("127.0.0.1", address.port), timeout=_SECONDS).close()
        return True
    return False


def silence(url: str, error: object) -> str:
    """Return that nobody answers where the manager of a state directory was."""
    words = str(error) or type(error).__name__
    return f"no manager answers at {url}: {words}; is it still running?"
