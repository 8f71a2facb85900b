"""A sidecar for tests of trainers: it asks once for a checkpoint, and writes down what it is told."""

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

TRAINER = Path(__file__).resolve().parents[3] / "trainer"
_HOLDS = 3
_ENDING_SECONDS = 30.0


class AskingSidecar:
    """Asks for a checkpoint, with a pause after it, once a report names at least the step `ask_at`."""

    def __init__(self, folder, *, ask_at=None, resume=None):
        folder.mkdir(parents=True, exist_ok=True)
        self._token = folder / "token"
        self._token.write_text("secret")
        self._path = folder / "s"
        self._ask_at, self._resume = ask_at, resume
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._path))
        self._server.listen(16)
        self._asked = False
        self._serving = []
        self.messages = []
        self.held = threading.Event()
        """The request was answered, and the trainer was told to wait some times since."""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def environment(self):
        """What a trainer finds in its environment."""
        return {
            "SPECON_SOCKET": str(self._path),
            "SPECON_TOKEN_FILE": str(self._token),
            "PYTHONPATH": str(TRAINER),
        }

    def of_kind(self, kind):
        """Return the messages of a kind, as they came."""
        return [message[kind] for message in list(self.messages) if kind in message]

    def close(self):
        """Read to its end what trainers said that have ended, and listen no longer."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        for serving in self._serving:
            serving.join()
        self._server.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._server.accept()
                serving = threading.Thread(target=self._serve, args=(peer,), daemon=True)
                self._serving.append(serving)
                serving.start()

    def _serve(self, peer):
        with contextlib.suppress(OSError, ValueError), peer, peer.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                self.messages.append(message)
                for answer in self._answers(message):
                    peer.sendall(json.dumps(answer).encode() + b"\n")
                if message.get("saved", {}).get("request") and self._ask_at is not None:
                    for told in itertools.count(1):
                        peer.sendall(b'{"hold": {"request": "1"}}\n')
                        if told == _HOLDS:
                            self.held.set()
                        time.sleep(0.2)

    def _answers(self, message):
        if "hello" in message:
            assert message["hello"]["token"] == "secret"
            yield {"welcome": {"resume": self._resume}}
        step = message.get("report", {}).get("step", -1)
        if self._ask_at is not None and step >= self._ask_at and not self._asked:
            self._asked = True
            yield {"checkpoint": {"request": "1", "pause": 30.0}}


def run_script(command, sidecar, folder, *, until_saved=False, environment=None):
    """Run a script in a folder to its end, or until it has saved and pauses: then it is told to end.

    Returns what it printed. How long it takes is what the machine makes of it; the limit of the test ends
    one that hangs.
    """
    variables = {**os.environ, **(sidecar.environment if sidecar else {}), **(environment or {})}
    output = folder / "output.txt"
    with output.open("wb") as opened:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=variables, stdout=opened, stderr=subprocess.STDOUT
        )
    try:
        if until_saved:
            while not sidecar.held.wait(0.05):
                assert process.poll() is None, "it ended, and was to wait"
            process.send_signal(signal.SIGTERM)
        process.wait()
    finally:
        _end(process)
        told = output.read_text(errors="replace")
        sys.stdout.write(told)
    if not until_saved:
        assert process.returncode == 0
    return told


def _end(process):
    """End what was started, ranks included: those of a launcher outlive it unless it is told to end."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)
    process.kill()
    process.wait()
