"""The real descheduler beside a real API server: its program, unmodified, with a policy of its own.

DESCHEDULER names the program; else it is looked for beside the API server's.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from support.kube import server

TAINT = "example.com/emptied"
"""Pods that do not tolerate this taint are evicted, by the plugin RemovePodsViolatingNodeTaints."""
_INTERVAL = "2s"


def program(programs: Path | None) -> Path | None:
    """Return the program; None without it."""
    named = os.environ.get("DESCHEDULER")
    beside = None if programs is None else programs / "descheduler"
    found = Path(named) if named else beside
    return found if found is not None and os.access(found, os.X_OK) else None


class RealDescheduler:
    """One round every two seconds; `log` is what it says."""

    def __init__(self, descheduler: Path, folder: Path, *, background: bool) -> None:
        """`background`: whether its gate `EvictionsInBackground` is on."""
        self._program, self._folder, self._background = descheduler, folder, background
        self.log = folder / f"descheduler-{'background' if background else 'plain'}.log"

    @contextlib.contextmanager
    def running(self, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run it, and give its process."""
        policy = self._folder / "descheduler.yaml"
        policy.write_text(yaml.safe_dump(_policy()))
        command = [
            str(self._program),
            f"--kubeconfig={kubeconfig}",
            f"--policy-config-file={policy}",
            f"--descheduling-interval={_INTERVAL}",
            "--secure-port=0",
            "--v=3",
        ]
        if self._background:
            command.append("--feature-gates=EvictionsInBackground=true")
        with server.run_program(command, self.log) as process:
            yield process

    def said(self, words: str) -> int:
        """Return in how many lines of its log these words are."""
        return sum(words in line for line in self.log.read_text("utf-8", "replace").splitlines())


def _policy() -> dict[str, object]:
    plugin = "RemovePodsViolatingNodeTaints"
    # Else it leaves pods with an emptyDir alone, and that is where the helper of instrumented ones is.
    protections = {"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [
            {
                "name": "emptied",
                "pluginConfig": [
                    {"name": "DefaultEvictor", "args": protections},
                    {"name": plugin, "args": {"includedTaints": [TAINT]}},
                ],
                "plugins": {"deschedule": {"enabled": [plugin]}},
            }
        ],
    }
