"""The arguments that all training samples share."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What a sample chooses for itself."""

    steps: int
    batch_size: int
    hidden: int
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """One run, as asked for on the command line."""

    model: str
    steps: int
    batch_size: int
    hidden: int
    learning_rate: float
    seed: int
    log: Path | None
    log_every: int
    checkpoint_dir: Path | None
    checkpoint_every: int
    keep: int
    request_file: Path | None = None


def parser(model: str, defaults: Defaults) -> argparse.ArgumentParser:
    """Return the parser; it ends the process with status 2 and a message that names argument and value."""
    result = argparse.ArgumentParser(
        description=f"Train {model} on scikit-learn's digits data set.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = result.add_argument
    add("--steps", type=_whole(1), default=defaults.steps, help="steps in total, resumed ones included")
    add("--batch-size", type=_whole(1, 65536), default=defaults.batch_size, help="images per step")
    add("--hidden", type=_whole(1, 16384), default=defaults.hidden, help="size of the hidden layers")
    add("--learning-rate", type=_positive, default=defaults.learning_rate, help="of the Adam optimizer")
    add("--seed", type=_whole(0), default=0, help="of the first parameters and of the batches")
    add("--log", type=Path, help="file to append the log to; standard output without it")
    add("--log-every", type=_whole(1), default=1, help="steps from one log line to the next")
    add("--checkpoint-dir", type=Path, help="folder of the checkpoints; without it there are none")
    add(
        "--checkpoint-every",
        type=_whole(0),
        default=100,
        help="steps between checkpoints; 0: when asked only",
    )
    add("--keep", type=_whole(2), default=3, help="newest checkpoints that stay")
    add("--request-file", type=Path, help="asks for a checkpoint by being there, and is taken away then")
    return result


def parse(model: str, defaults: Defaults, argv: Sequence[str] | None = None) -> Arguments:
    """Read the command line."""
    return Arguments(model=model, **vars(parser(model, defaults).parse_args(argv)))


def _whole(at_least: int, at_most: int = 2**31 - 1) -> Callable[[str], int]:
    def convert(text: str) -> int:
        digits = text if text.isascii() and text.isdigit() and len(text) <= len(str(at_most)) else "-1"
        if not at_least <= int(digits) <= at_most:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {at_least} to {at_most}, not {text!r}"
            )
        return int(digits)

    return convert


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a finite number above 0, not {text!r}")
    return value
