"""`specon completion`: what a shell needs to complete commands and flags; made from the parser itself."""

import argparse
from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete in")


def main(arguments: argparse.Namespace) -> int:
    """Print the script; 0."""
    import shtab  # noqa: PLC0415  (no other command needs it)

    parser: argparse.ArgumentParser = arguments.make_parser()
    print(shtab.complete(parser, shell=arguments.shell))
    return 0
