"""A log while it is read: its lines, the samples in them, and what they are judged by."""

import msgspec
from msgspec import Struct

from specon_manager.cli.study.course import KeptSamples
from specon_manager.cli.study.likeliest import Names
from specon_manager.cli.study.log_input import LogInput
from specon_sidecar.classify import ClassifierSettings
from specon_sidecar.formats.parser import FormatOptions
from specon_sidecar.formats.reader import Reader
from specon_sidecar.formats.sample import Sample


class Reading(Struct):
    """A log while it is read: who reads it, and what came of it so far."""

    log: LogInput
    options: FormatOptions
    reader: Reader
    kept: KeptSamples
    names: Names
    lines: int = 0

    def take(self, lines: list[bytes]) -> list[Sample]:
        """Read these lines; keep and return their samples."""
        self.lines += len(lines)
        samples = self.reader.read(lines)
        self.kept.extend(samples)
        if not self.kept.count:
            self.names.take(lines)
        return samples

    def finish(self) -> None:
        """Read what has no end, for no more comes."""
        self.take(self.log.rest())
        self.kept.extend(self.reader.finish())


def with_goal(settings: ClassifierSettings, reading: Reading, goal: str | None) -> ClassifierSettings:
    """Return the settings with the goal that was given, or that the metric's name says."""
    return msgspec.structs.replace(settings, goal=goal or reading.reader.goal)
