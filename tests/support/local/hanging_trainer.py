"""A trainer that hangs once, for good, on a lock that nobody releases: alone, or as the last rank of two.

Both ranks go step by step, so the other one waits for it in a read. Needs the standard library only.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

STEPS, HANGS_AT = 70, 40


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--start", required=True)
    given = parser.parse_args()
    given.checkpoints.mkdir(parents=True, exist_ok=True)
    peer = _peer(given) if given.ranks > 1 else None
    hung = given.shared / "hung"
    saved = max(
        (json.loads(file.read_text())["step"] for file in given.checkpoints.glob("*.ckpt")), default=0
    )
    for step in range(saved + 1, STEPS + 1):
        end = time.process_time() + 0.004
        while time.process_time() < end:
            pass
        time.sleep(0.2)
        if given.rank == given.ranks - 1 and step == HANGS_AT and not hung.exists():
            hung.touch()
            lock = threading.Lock()
            for _ in range(2):
                lock.acquire()
        if peer is not None:
            peer.sendall(b".")
            if not peer.recv(1):
                return 1
        if given.rank:
            continue
        sys.stdout.write(f"step={step}/{STEPS} loss={1 / step:.4f}\n")
        sys.stdout.flush()
        if step % 10 == 0:
            partial = given.checkpoints / f".{step}"
            partial.write_text(json.dumps({"step": step}))
            partial.rename(given.checkpoints / f"step-{step}.ckpt")
    return 0


def _peer(given: argparse.Namespace) -> socket.socket:
    # The address of a Unix socket has room for 107 characters: too few for the folder of a test.
    os.chdir(given.shared)
    address = f"{given.start}.sock"
    made = socket.socket(socket.AF_UNIX)
    if given.rank == 0:
        made.bind(address)
        made.listen()
        return made.accept()[0]
    while True:
        try:
            made.connect(address)
        except OSError:
            time.sleep(0.05)
        else:
            return made


if __name__ == "__main__":
    sys.exit(main())
