"""A release of the chart on a real cluster, by a real helm."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

import yaml

from support.live.settings import NotAllowedError
from support.packaging.helm import CHART
from support.packaging.helm_binary import find_helm

_SECONDS: Final = 150


class Release:
    """Installs, changes and removes a release; every command waits until its pods are ready."""

    def __init__(self, name: str, namespace: str, kubeconfig: Path, folder: Path) -> None:
        """Say which. Raises NotAllowedError where there is no helm."""
        found = find_helm()
        if found is None:
            raise NotAllowedError("needs helm: name it in $HELM, or put it in PATH")
        self.name, self.namespace = name, namespace
        self._helm = found
        self._environment = {
            "PATH": os.environ["PATH"],
            # Neither plugins nor repositories of the user who runs the tests.
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
        }
        self._folder = folder

    async def install(self, values: object) -> str:
        """Install the chart; return what helm tells, which is its notes."""
        return await self("install", self.name, str(CHART), "--wait", values=values)

    async def upgrade(self, values: object) -> str:
        """Install it anew with other values."""
        return await self("upgrade", self.name, str(CHART), "--wait", values=values)

    async def rollback(self) -> str:
        """Go back to the revision before."""
        return await self("rollback", self.name, "--wait")

    async def uninstall(self) -> str:
        """Remove it; it need not be there."""
        return await self("uninstall", self.name, "--wait", "--ignore-not-found")

    async def history(self) -> list[dict[str, Any]]:
        """Return its revisions, the oldest first."""
        revisions: list[dict[str, Any]] = json.loads(await self("history", self.name, "--output=json"))
        return revisions

    async def __call__(self, *arguments: str, values: object = None) -> str:
        """Run helm and return what it prints. Raises AssertionError where it fails."""
        flags = [f"--namespace={self.namespace}"]
        if "--wait" in arguments:
            flags.append(f"--timeout={_SECONDS}s")
        if values is not None:
            file = self._folder / "values.yaml"
            file.write_text(yaml.safe_dump(values), "utf-8")
            flags.append(f"--values={file}")
        process = await asyncio.create_subprocess_exec(
            self._helm,
            *arguments,
            *flags,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
        )
        try:
            output, errors = await asyncio.wait_for(process.communicate(), _SECONDS + 30)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        assert process.returncode == 0, f"helm {' '.join(arguments)}: {errors.decode()}"
        return output.decode()
