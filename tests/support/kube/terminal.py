"""A person who types commands against a cluster."""

import asyncio
import json

from specon_manager.__main__ import main


class Terminal:
    """Runs commands against a cluster and keeps what they print."""

    def __init__(self, cluster, folder, capsys, run=main):
        self.flags = ["--kubeconfig", str(cluster.kubeconfig(folder / "kubeconfig"))]
        self._capsys, self._run = capsys, run
        self.errors = ""

    async def __call__(self, *arguments, code=0):
        """Run a command and return what it prints; it ends with that exit status."""
        self._capsys.readouterr()
        got = await asyncio.to_thread(self._run, [*arguments, *self.flags])
        output, self.errors = self._capsys.readouterr()
        assert got == code, (output, self.errors)
        return output

    async def json(self, *arguments, code=0):
        return json.loads(await self(*arguments, "--output", "json", code=code))
