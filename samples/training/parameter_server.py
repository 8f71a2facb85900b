"""Asynchronous training with a parameter server: workers may come and go while the others train on.

The server keeps the parameters and takes a step of Adam for every gradient that comes; a worker pulls,
computes, pushes, and waits for nobody (Dean et al., "Large scale distributed deep networks", NIPS 2012). The
first worker logs, and writes the checkpoints; a server that starts goes on from the newest one.
"""

from signals import REQUESTS  # first of all: it installs the signal handlers

# isort: split
import argparse
import json
import os
import sys
from pathlib import Path

import arguments
from arguments import Defaults
from log import Log
from parameter_host import serve
from parameter_worker import Worker

DEFAULTS = Defaults(steps=4000, batch_size=512, hidden=256, learning_rate=1e-3)


def _role() -> tuple[str, int]:
    """Return role and index: told by specon's local backend, by TFJob, or by an Indexed Job."""
    if "SPECON_ROLE" in os.environ:
        return os.environ["SPECON_ROLE"], int(os.environ.get("SPECON_INDEX", "0"))
    if "TF_CONFIG" in os.environ:
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        return str(task["type"]), int(task["index"])
    return "worker", int(os.environ.get("JOB_COMPLETION_INDEX", "0"))


def _parsed() -> argparse.Namespace:
    parser = arguments.parser("numpy-perceptron", DEFAULTS)
    role, index = _role()
    parser.add_argument("--role", choices=("ps", "worker"), default=role, help="of this process")
    parser.add_argument("--index", type=int, default=index, help="of this worker; the first one logs")
    parser.add_argument(
        "--address",
        type=Path,
        help="file in which the server says its port; else PS_ADDRESS says where it is",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="where the server listens; 0: on this machine only"
    )
    parser.add_argument(
        "--image-seconds",
        type=float,
        default=0.0,
        help="least time for an image: as if the model were larger",
    )
    parsed = parser.parse_args()
    if parsed.checkpoint_dir is None:
        parser.error("argument --checkpoint-dir: server and first worker need the same one")
    return parsed


def main() -> int:
    """Serve or work until the last step, or until told to end; return the exit status."""
    run = _parsed()
    try:
        run.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        log = Log(run.log)
        if run.role == "ps":
            return serve(run, log, REQUESTS)
        return Worker(run, log, REQUESTS).work()
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - as argparse does
        return 2


if __name__ == "__main__":
    sys.exit(main())
