"""Asking a running manager over HTTP with the owner's token, and killing it as it answers."""

import http.client
import json
import os
import signal
import urllib.parse
from typing import Any, Final

from specon_manager.runtime.state_directory import Address, address_and_token
from support.local.stage import Running, Stage

SECONDS: Final = 60.0
Manager = tuple[Address, str]


def manager_of(stage: Stage, running: Running) -> Manager:
    """Wait until this manager says where it is."""

    def published() -> Manager | None:
        assert running.code is None, running.errors
        found = address_and_token(stage.state) if stage.state.exists() else None
        return found if found is not None and found[0].pid == running.pid else None

    return stage.eventually(published, SECONDS)


def ask(
    method: str, path: str, manager: Manager, body: object = None, *, kill: int | None = None
) -> tuple[int, Any]:
    """Return status and answer; `kill` is the process that is killed as soon as the status is there."""
    address, token = manager
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address.url).netloc, timeout=SECONDS)
    content = None if body is None else json.dumps(body).encode()
    connection.request(method, path, body=content, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    if kill is not None:
        os.kill(kill, signal.SIGKILL)
    said = answer.read()
    connection.close()
    return answer.status, json.loads(said) if said.startswith(b"{") else said
