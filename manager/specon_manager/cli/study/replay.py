"""`specon replay FILE`: run a journal through `step` again, or cut off what is damaged in it."""

import argparse
import contextlib
from pathlib import Path

from specon_manager.runtime.append_file import DiskFullError
from specon_manager.runtime.journal import NAME, cut, first_difference
from specon_manager.runtime.state_directory import StateDirectory
from specon_manager.usage import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("journal", type=Path, help="a journal, or the state directory of a manager")
    parser.add_argument(
        "--cut",
        action="store_true",
        help="keep of a damaged journal what is before the first bad line: the next manager goes on there",
    )


def main(arguments: argparse.Namespace) -> int:
    """Replay; 0 when every step orders what it ordered then, 1 at the first that does not."""
    path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal
    try:
        return _cut(path) if arguments.cut else _replay(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _replay(path: Path) -> int:
    agreed, difference = first_difference(path)
    if difference is None:
        print(f"{path}: {agreed} steps, no difference")
        return 0
    print(f"{path}: {agreed} steps agree; line {difference.line} differs at {difference.event}")
    print("  recorded:", *difference.recorded or ["nothing"], sep="\n    ")
    print("  replayed:", *difference.replayed or ["nothing"], sep="\n    ")
    return 1


def _cut(path: Path) -> int:
    with contextlib.ExitStack() as stack:
        if path.name == NAME and path.exists():
            # Held meanwhile, so that no manager goes on writing what is put aside.
            stack.callback(StateDirectory(path.parent).release)
        try:
            done = cut(path)
        except DiskFullError as error:
            raise UsageError(str(error)) from error
    if done is None:
        print(f"{path}: nothing is damaged")
    else:
        good, damaged = done
        print(f"{path}: {good} good lines are kept; the damaged journal is {damaged}")
    return 0
