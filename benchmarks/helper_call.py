"""What a call of the trainer's helper costs while nothing is asked.

`python benchmarks/helper_call.py [--json FILE]`. Each figure is the best of several processes, per call,
less the empty loop around it: without a sidecar, with one that listens, and with one while
torch.distributed is loaded but not initialised, which is what most trainers are. `report` is called at the
pace of a very fast loop.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import figure
from figure import Figure

TRAINER = Path(__file__).resolve().parents[1] / "trainer"
BOUND = 1.0  # microseconds
ROUNDS, CALLS = 5, 500_000

MEASURE = """
import json, sys, time
calls, before = int(sys.argv[1]), sys.argv[2]
exec(before)
import specon
def timed(call):
    begun = time.perf_counter()
    for step in range(calls):
        call(step)
    return time.perf_counter() - begun
empty = timed(lambda step: None)
asked = timed(lambda step: specon.checkpoint_requested())
told = timed(lambda step: specon.report(step, loss=0.5))
print(json.dumps([(asked - empty) / calls * 1e6, (told - empty) / calls * 1e6]))
"""


@contextmanager
def sidecar() -> Iterator[dict[str, str]]:
    """Listen as a sidecar does, and give what a trainer is told."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        token = Path(folder, "token")
        token.write_text("t")
        server.bind(f"{folder}/s")
        server.listen()

        def read() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                    while peer.recv(65536):
                        pass
                except OSError:
                    return

        threading.Thread(target=read, daemon=True).start()
        yield {"SPECON_SOCKET": f"{folder}/s", "SPECON_TOKEN_FILE": str(token)}
        server.shutdown(socket.SHUT_RDWR)


def microseconds(told: dict[str, str], rounds: int, calls: int, before: str = "") -> tuple[float, float]:
    """Return what a look for a request costs, and a report: the best of so many processes."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, "-c", MEASURE, str(calls), before]
        environment = {**os.environ, "PYTHONPATH": str(TRAINER), "SPECON_INSTRUMENT": "off", **told}
        printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(printed))
    asked, reported = (min(values) for values in zip(*found, strict=True))
    return asked, reported


def measure(rounds: int = ROUNDS, calls: int = CALLS) -> list[Figure]:
    """Return the figures."""
    without, no_report = microseconds({}, rounds, calls)
    with sidecar() as told:
        with_one, report = microseconds(told, rounds, calls)
        with_torch, _ = microseconds(told, rounds, calls, "import torch.distributed")
    return [
        Figure(what="checkpoint_requested() without a sidecar", value=without, unit="us", at_most=BOUND),
        Figure(what="checkpoint_requested() with one", value=with_one, unit="us", at_most=BOUND),
        Figure(what="the same beside torch.distributed", value=with_torch, unit="us", at_most=BOUND),
        Figure(what="report() without a sidecar", value=no_report, unit="us"),
        Figure(what="report() with one", value=report, unit="us"),
    ]


def smallest() -> list[Figure]:
    """Return every figure, and measure nothing."""
    return measure(1, 1000)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
