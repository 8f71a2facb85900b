"""How much of a processor a worker uses while it waits for its parameter server.

`python benchmarks/blocked_worker.py [--json FILE]`. Two processes: a server that sends parameters and takes
gradients at the pace of the network of KOD2's workload, and a worker that fetches the one, copies them to
where it would compute, and sends the other, without computing anything. What the worker uses of a processor
meanwhile is what a process monitor shows of one that is blocked: `kod2_runs.BLOCKED` of the lab.
"""

from collections.abc import Sequence
from statistics import median

import child
import figure
from figure import Figure
from specon_lab.reproduction.kod2_runs import BLOCKED
from specon_lab.workloads.kod2 import MODELS, KOD2Workload

ROUNDS = 3
PACE = KOD2Workload().bandwidth  # bytes per second
CHUNK = 256 * 1024

SERVE = """
import socket, sys, time
size, pace, chunk = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
def paced(move):
    began, done = time.perf_counter(), 0
    while done < size:
        done += move(min(chunk, size - done))
        time.sleep(max(0.0, began + done / pace - time.perf_counter()))
parameters = bytes(chunk)
room = memoryview(bytearray(chunk))
with socket.socket() as listening:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, chunk)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)
    connection, _ = listening.accept()
while connection.recv(1):
    paced(lambda wanted: connection.send(parameters[:wanted]))
    paced(lambda wanted: connection.recv_into(room, wanted))
"""
WORK = """
import socket, sys, time
import numpy as np
port, size, chunk = (int(each) for each in sys.argv[1:])
arrived, parameters = np.empty(size, np.uint8), np.empty(size, np.uint8)
arrived[:] = parameters[:] = 0
view = memoryview(arrived)
with socket.create_connection(("127.0.0.1", port)) as server:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, chunk)
    for _ in sys.stdin:
        passed, used = time.perf_counter(), time.process_time()
        server.sendall(b"?")
        done = 0
        while done < size:
            done += server.recv_into(view[done:])
        parameters[:] = arrived
        server.sendall(parameters)
        print(time.perf_counter() - passed, time.process_time() - used, flush=True)
"""


def measure(rounds: int = ROUNDS, size: int = int(MODELS["vgg-16"].parameters)) -> list[Figure]:
    """Let a worker fetch and send the parameters of VGG-16 a few times."""
    sizes = (str(size), str(CHUNK))
    with child.python("-c", SERVE, sizes[0], str(PACE), sizes[1]) as server:
        port = child.line(server)
        with child.python("-c", WORK, port, *sizes) as worker:
            taken = [_round(worker) for _ in range(rounds)]
    return _figures(taken, size)


def _round(worker: child.Child) -> tuple[float, float]:
    child.tell(worker, "go")
    passed, used = map(float, child.line(worker).split())
    return passed, used


def _figures(taken: Sequence[tuple[float, float]], size: int) -> list[Figure]:
    shares = [100 * used / passed for passed, used in taken]
    pace = 2 * size / median(passed for passed, _ in taken)
    return [
        Figure(
            what="share of a processor that a blocked worker uses",
            value=median(shares),
            unit="%",
            note=f"from {min(shares):.1f} to {max(shares):.1f}; taken to be {100 * BLOCKED:g}",
        ),
        Figure(what="pace of the network, so that it was blocked", value=pace / 1e6, unit="MB/s"),
    ]


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(1, 1 << 20)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
