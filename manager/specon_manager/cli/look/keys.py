"""Single keys from a terminal, as they are pressed."""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def keys_to(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Hand on each key within the block; False where there is no terminal to read from.

    The terminal is as it was afterwards, whatever ends the block. Ctrl-C is still an interrupt.
    """
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        content = os.read(descriptor, 64)
        if not content:  # the terminal is gone
            loop.remove_reader(descriptor)
        for key in content.decode(errors="ignore"):
            pressed(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
