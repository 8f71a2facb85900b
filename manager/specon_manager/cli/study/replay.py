"""`specon replay FILE`: run a journal through `step` again, or cut off its damaged lines."""

import argparse
import contextlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from specon_manager.cli.output import add_output, to_json
from specon_manager.runtime.append_file import DiskFullError
from specon_manager.runtime.journal import NAME, cut, first_difference
from specon_manager.runtime.state_directory import StateDirectory
from specon_manager.usage import UsageError
from specon_sidecar.counts import format_count


class Replayed(Struct, frozen=True, kw_only=True):
    """What `specon replay --output json` prints."""

    journal: str
    agreed: int
    """How many steps order what they ordered then."""
    line: int | None = None
    """The first that differs."""
    event: Any = None
    recorded: Any = None
    """The actions ordered then, and"""
    replayed: Any = None
    """those ordered now."""


class Cut(Struct, frozen=True, kw_only=True):
    """What `specon replay --cut --output json` prints."""

    journal: str
    kept: int | None
    """Good lines; None where nothing is damaged."""
    damaged: str | None
    """Where the damaged journal is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("journal", type=Path, help="a journal, or the state directory of a manager")
    parser.add_argument(
        "--cut",
        action="store_true",
        help="keep the lines of a damaged journal before the first bad one; the next manager continues there",
    )
    add_output(parser)


def main(arguments: argparse.Namespace) -> int:
    """Replay; 0 when every step orders what it ordered then, 1 at the first that does not.

    Raises UsageError for a journal that cannot be read.
    """
    path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal
    try:
        return (_cut if arguments.cut else _replay)(path, as_json=arguments.output == "json")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _replay(path: Path, *, as_json: bool) -> int:
    agreed, difference = first_difference(path)
    if as_json:
        told = {} if difference is None else msgspec.structs.asdict(difference)
        print(to_json(Replayed(journal=str(path), agreed=agreed, **told)))
        return int(difference is not None)
    if difference is None:
        print(f"{path}: {format_count(agreed, 'step')}, no difference")
        return 0
    print(
        f"{path}: {format_count(agreed, 'step agrees', 'steps agree')}; line"
        f" {difference.line} differs at {difference.event}"
    )
    print("  recorded:", *difference.recorded or ["nothing"], sep="\n    ")
    print("  replayed:", *difference.replayed or ["nothing"], sep="\n    ")
    return 1


def _cut(path: Path, *, as_json: bool) -> int:
    with contextlib.ExitStack() as stack:
        if path.name == NAME and path.exists():
            # Held meanwhile, so that no manager goes on writing the journal that is put aside.
            stack.callback(StateDirectory(path.parent).release)
        try:
            done = cut(path)
        except DiskFullError as error:
            raise UsageError(str(error)) from error
    if as_json:
        kept, aside = (None, None) if done is None else (done[0], str(done[1]))
        print(to_json(Cut(journal=str(path), kept=kept, damaged=aside)))
    elif done is None:
        print(f"{path}: nothing is damaged")
    else:
        good, damaged = done
        print(
            f"{path}: {format_count(good, 'good line is', 'good lines are')} kept; the"
            f" damaged journal is {damaged}"
        )
    return 0
