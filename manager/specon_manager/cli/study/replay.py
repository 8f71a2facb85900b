"""`specon replay FILE`: run a journal through `step` and report the first difference."""

import argparse
from pathlib import Path

from specon_manager.runtime.journal import NAME, JournalError, first_difference
from specon_manager.usage import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("journal", type=Path, help="a journal, or the state directory of a manager")


def main(arguments: argparse.Namespace) -> int:
    """Replay; 0 when every step orders what it ordered then, 1 at the first that does not."""
    path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal
    try:
        agreed, difference = first_difference(path)
    except JournalError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if difference is None:
        print(f"{path}: {agreed} steps, no difference")
        return 0
    print(f"{path}: {agreed} steps agree; line {difference.line} differs at {difference.event}")
    print("  recorded:", *difference.recorded or ["nothing"], sep="\n    ")
    print("  replayed:", *difference.replayed or ["nothing"], sep="\n    ")
    return 1
