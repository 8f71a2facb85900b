"""What it costs to look for checkpoints among many, and to verify one of 50 GB that takes no room.

Times are of one processor; a repeated scan is compared with listing the same folder and asking for each
file's times. `python benchmarks/checkpoints.py`.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import figure
from figure import Figure
from specon_sidecar.checkpoints.checkpoint_watch import CheckpointWatch
from specon_sidecar.checkpoints.verify import Budget, verify_path

FILES = 9_999
GIGABYTES = 50
BOUND_RATIO = 15.0
BOUND_SECONDS = 10.0
BOUND_SHARE = 1.0


def measure(files: int = FILES, gigabytes: int = GIGABYTES) -> list[Figure]:
    """Scan a folder of checkpoints again and again, and verify a large one."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_scans(Path(folder) / "many", files), *_verification(Path(folder) / "large", gigabytes)]


def _scans(folder: Path, files: int) -> list[Figure]:
    folder.mkdir()
    for number in range(files):
        (folder / f"step-{number:06d}.pt").write_bytes(b"\x80x.")
    watch = CheckpointWatch(folder, settle=0.0)
    first = _used(lambda: watch.scan(0.0))
    later = min(_used(lambda: watch.scan(1.0)) for _ in range(3))
    bare = min(_used(lambda: [item.stat() for item in os.scandir(folder)]) for _ in range(3))
    return [
        Figure(what=f"first scan of {files} files", value=first, unit="s"),
        Figure(what="each later one", value=later, unit="s"),
        Figure(what="against listing them", value=later / bare, unit="times", at_most=BOUND_RATIO),
    ]


def _verification(folder: Path, gigabytes: int) -> list[Figure]:
    folder.mkdir()
    size = gigabytes * 10**9
    header = b'{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,%d]}}' % size
    with (folder / "step-7.safetensors").open("wb") as opened:
        opened.write(len(header).to_bytes(8, "little") + header)
        opened.truncate(8 + len(header) + size)
    begun = time.perf_counter()
    found = verify_path(folder / "step-7.safetensors", Budget(seconds=BOUND_SECONDS))
    seconds = time.perf_counter() - begun
    return [
        Figure(
            what=f"verifying {gigabytes} GB ({found.read})", value=seconds, unit="s", at_most=BOUND_SECONDS
        ),
        Figure(what="read of it", value=100 * found.bytes_read / size, unit="%", at_most=BOUND_SHARE),
    ]


def _used(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return measure(20, 2)


if __name__ == "__main__":
    figure.main(__doc__, measure, smallest)
