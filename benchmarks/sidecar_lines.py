"""How fast the sidecar turns a log into samples, and what that costs in memory and processor time.

Speeds are lines per second of one core, splitting included, and their ratio to a bare loop over the lines
of the same bytes in the same run. `python benchmarks/sidecar_lines.py [--json FILE]`.
"""

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import figure
from figure import Figure
from specon_sidecar.following.lines import LineSplitter
from specon_sidecar.following.log_file import CHUNK_BYTES
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import FORMATS, make_reader

LINES = 200_000
REPEATS = 3
FAMILY_LINES = 50_000
FAMILY_REPEATS = 1  # there are many
LOG_MEGABYTES = 200
TRICKLE_SECONDS = 8
TRICKLE_LINES_PER_SECOND = 100

# Bounds: lines per second with one sample in ten lines, and with one in each; MiB; share of a core.
BOUND_TYPICAL = 150_000
BOUND_DENSE = 60_000
BOUND_RESIDENT = 48
BOUND_TRICKLE = 0.01

NOISE = (
    b"2026-11-20 23:00:00,123 - data - INFO - worker 3 fetched shard 17 of 512 from the cache in 0.123 s\n"
)
TEXT = b"2026-11-20 23:00:00,123 INFO step=%d/400000 epoch=3 loss=2.%04d lr=0.0003 grad_norm=1.23 mem=11810\n"
OBJECT = b'{"step": %d, "epoch": 3, "loss": 2.%04d, "lr": 0.0003, "grad_norm": 1.23, "mem": 11810}\n'
ROW = b"%d,2.%04d,3,0.0003,1.23,1834.2,11810\n"
PATTERN = r"step=(?P<step>\d+)/(?P<total>\d+) .*loss=(?P<value>\S+)"

# A log of each family; which format reads it the detection says.
SAMPLES = Path(__file__).parent.parent / "tests" / "sidecar" / "formats" / "samples"

# Name of the result -> format, options, head of the log, line with a sample.
CASES: dict[str, tuple[str, FormatOptions, bytes, bytes]] = {
    "key-value": ("key-value", FormatOptions(), b"", TEXT),
    "json-lines": ("json-lines", FormatOptions(), b"", OBJECT),
    "csv": ("csv", FormatOptions(), b"step,loss,epoch,lr,grad_norm,speed,mem\n", ROW),
    "regular-expression": ("regular-expression", FormatOptions(pattern=PATTERN), b"", TEXT),
    "auto (key-value)": ("auto", FormatOptions(), b"", TEXT),
}

# The whole of a text sidecar's imports; what it holds at its peak is what counts.
FOLLOW = """
import asyncio, sys, time
import aiohttp, prometheus_client
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.table import FORMATS, make_reader
from specon_sidecar.following.tail import Tail

async def main(path, seconds):
    tail, reader, samples = Tail(path), make_reader("auto", FormatOptions()), 0
    print("ready", flush=True)
    if seconds:
        asyncio.get_running_loop().call_later(seconds, tail.stop)
    else:
        tail.stop()
    used, started = time.process_time(), time.perf_counter()
    async for lines in tail.batches():
        samples += len(reader.read(lines))
    used, passed = time.process_time() - used, time.perf_counter() - started
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(tail.counters.lines, samples, used, passed, int(status["VmHWM"].split()[0]) / 1024)

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


def log(line: bytes, every: int, lines: int = LINES) -> Iterator[bytes]:
    """Yield lines, each `every`-th of them with a sample."""
    for number in range(lines):
        yield line % (number, number % 10_000) if number % every == 0 else NOISE


def chunks(data: bytes) -> list[bytes]:
    """Cut as the follower reads."""
    return [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]


def bare_loop(parts: list[bytes]) -> int:
    """Split each chunk and look at each line: the baseline."""
    lines = 0
    for part in parts:
        for _ in part.split(b"\n"):
            lines += 1
    return lines


def read_samples(parts: list[bytes], name: str, options: FormatOptions) -> int:
    """Split and parse as the sidecar does."""
    splitter, reader = LineSplitter(), make_reader(name, options)
    return sum(len(reader.read(splitter.feed(part))) for part in parts)


def best(function: Callable[[], int], repeats: int = REPEATS) -> tuple[float, int]:
    """Return the shortest processor time of several runs, and the last result."""
    times, result = [], 0
    for _ in range(repeats):
        started = time.process_time()
        result = function()
        times.append(time.process_time() - started)
    return min(times), result


def speed(
    name: str, options: FormatOptions, head: bytes, line: bytes, every: int, *, lines: int, repeats: int
) -> dict[str, Any]:
    """Measure one format on one log, and the baseline on the same bytes."""
    parts = chunks(head + b"".join(log(line, every, lines)))
    baseline, _ = best(lambda: bare_loop(parts), repeats)
    seconds, samples = best(lambda: read_samples(parts, name, options), repeats)
    if samples != len(range(0, lines, every)):
        raise RuntimeError(f"{name}: {samples} samples read of a log with {len(range(0, lines, every))}")
    bound = BOUND_DENSE if every == 1 else BOUND_TYPICAL
    return {
        "lines_per_second": round(lines / max(seconds, 1e-9)),
        "ratio_to_bare_loop": round(baseline / max(seconds, 1e-9), 4),
        "bound": bound,
        "within": lines / max(seconds, 1e-9) >= bound,
    }


def family_logs() -> dict[str, bytes]:
    """Return one sample log for each format that has any, by the name of the format.

    Where several logs show a format, it is the one with the most samples per line: the one that costs most.
    """
    found: dict[str, tuple[float, bytes]] = {}
    for path in sorted(SAMPLES.iterdir()):
        data = path.read_bytes()
        reader, lines = make_reader("auto", FormatOptions()), LineSplitter().feed(data + b"\n")
        samples = len([*reader.read(lines), *reader.finish()])
        # A log that is refused, of a GAN for instance, is named after its format.
        name = reader.chosen or path.stem
        if name in FORMATS and samples / len(lines) >= found.get(name, (0.0, b""))[0]:
            found[name] = samples / len(lines), data
    return {name: data for name, (_, data) in found.items()}


def family_speed(name: str, data: bytes, least: int) -> dict[str, Any]:
    """Measure one format on its sample log, repeated: noise, rows and headers mixed as its writer does."""
    # A header in the middle of a table says that the file was begun anew, with the same rows.
    head, rows = data.split(b"\n", 1) if name == "csv" else (b"", data)
    copies = math.ceil(least / len(rows.splitlines()))
    parts = chunks(head + b"\n" + (rows.rstrip(b"\n") + b"\n") * copies)
    lines = sum(len(LineSplitter().feed(part)) for part in parts)
    baseline, _ = best(lambda: bare_loop(parts), FAMILY_REPEATS)
    seconds, samples = best(lambda: read_samples(parts, name, FormatOptions()), FAMILY_REPEATS)
    return {
        "lines_per_second": round(lines / max(seconds, 1e-9)),
        "ratio_to_bare_loop": round(baseline / max(seconds, 1e-9), 4),
        "samples_per_line": round(samples / lines, 3),
        "bound": BOUND_DENSE,
        "within": lines / max(seconds, 1e-9) >= BOUND_DENSE,
    }


def follow(path: Path, seconds: float) -> subprocess.Popen[str]:
    """Start a process that follows a log; return once it is about to read."""
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOW, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError("the following process did not start")
    return process


def outcome(process: subprocess.Popen[str]) -> tuple[int, int, float, float, float]:
    """Return lines, samples, processor seconds, seconds, and peak resident MiB of a following process."""
    printed, _ = process.communicate(timeout=300)
    lines, samples, used, passed, resident = printed.split()
    return int(lines), int(samples), float(used), float(passed), float(resident)


def large_log(folder: Path, megabytes: int) -> dict[str, Any]:
    """Follow a large log to its end."""
    path = folder / "large.log"
    block = b"".join(log(TEXT, 10, 10_000))
    with path.open("wb") as writer:
        for _ in range(megabytes * 1_000_000 // len(block)):
            writer.write(block)
    lines, samples, used, _, resident = outcome(follow(path, 0))
    return {
        "megabytes": round(path.stat().st_size / 1e6),
        "lines": lines,
        "samples": samples,
        "lines_per_second": round(lines / used),
        "peak_resident_mib": round(resident, 1),
        "bound_mib": BOUND_RESIDENT,
        "within": resident <= BOUND_RESIDENT,
    }


def trickle(folder: Path, seconds: int) -> dict[str, Any]:
    """Follow a log to which lines are written one by one, each flushed."""
    path = folder / "trickle.log"
    path.touch()
    process = follow(path, seconds)
    with path.open("ab", buffering=0) as writer:
        started = time.perf_counter()
        for number in range((seconds - 1) * TRICKLE_LINES_PER_SECOND):
            writer.write(TEXT % (number, number))
            time.sleep(max(0.0, started + (number + 1) / TRICKLE_LINES_PER_SECOND - time.perf_counter()))
    lines, _, used, _, _ = outcome(process)
    share = used / (seconds - 1)  # the last second is for the end to arrive
    return {
        "lines_per_second": round(lines / (seconds - 1), 1),
        "core_share": round(share, 5),
        "bound": BOUND_TRICKLE,
        "within": share <= BOUND_TRICKLE,
    }


def measure(
    lines: int = LINES,
    repeats: int = REPEATS,
    family_lines: int = FAMILY_LINES,
    megabytes: int = LOG_MEGABYTES,
    seconds: int = TRICKLE_SECONDS,
) -> dict[str, Any]:
    """Return all measurements; `within` says where a bound is met."""
    speeds = {
        f"{title}, one sample in {every}": speed(*case, every, lines=lines, repeats=repeats)
        for title, case in CASES.items()
        for every in (1, 10)
    }
    speeds |= {
        f"sample log of {name}": family_speed(name, data, family_lines)
        for name, data in family_logs().items()
    }
    with tempfile.TemporaryDirectory() as folder:
        return {
            "speed": speeds,
            "large_log": large_log(Path(folder), megabytes),
            "trickle": trickle(Path(folder), seconds),
        }


def figures(result: Mapping[str, Any]) -> list[Figure]:
    """Return the measurements as figures."""
    found = [
        Figure(
            what=title,
            value=one["lines_per_second"],
            unit="lines/s",
            at_least=one["bound"],
            note=f"{one['ratio_to_bare_loop']:.3f} of a bare loop over the lines",
        )
        for title, one in result["speed"].items()
    ]
    large, slow = result["large_log"], result["trickle"]
    return [
        *found,
        Figure(
            what=f"peak resident memory, a log of {large['megabytes']} MB",
            value=large["peak_resident_mib"],
            unit="MiB",
            at_most=large["bound_mib"],
        ),
        Figure(
            what=f"tail and parser alone at {slow['lines_per_second']:.0f} lines/s",
            value=slow["core_share"],
            unit="core",
            at_most=slow["bound"],
        ),
    ]


def smallest() -> list[Figure]:
    """Give every figure, of next to nothing."""
    return figures(measure(lines=100, repeats=1, family_lines=1, megabytes=1, seconds=2))


if __name__ == "__main__":
    figure.main(__doc__, lambda: figures(measure()), smallest)
