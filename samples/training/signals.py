"""Signals a training process understands: SIGUSR1 asks for a checkpoint; SIGTERM and SIGINT ask it to end.

Importing this module installs the handlers. Every script imports it before anything else, because importing
PyTorch takes most of a second, and a SIGUSR1 in that time would end a process without a handler.
The handlers only take a note. The training loop reads it at the end of each step.
"""

import signal


class Requests:
    """The requests that are not done yet."""

    def __init__(self) -> None:
        self._checkpoint = False
        self._stop: int | None = None

    def note(self, signal_number: int, _frame: object) -> None:
        """Remember the signal; this is the handler."""
        if signal_number == signal.SIGUSR1:
            self._checkpoint = True
        else:
            self._stop = signal_number

    def take_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked, self._checkpoint = self._checkpoint, False
        return asked

    @property
    def exit_code(self) -> int | None:
        """128 + the number of the signal that asked the process to end, as shells count; None to go on."""
        return None if self._stop is None else 128 + self._stop


REQUESTS = Requests()
for _number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
    signal.signal(_number, REQUESTS.note)
