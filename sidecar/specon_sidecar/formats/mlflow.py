"""A metric's file in MLflow's file store: on each line milliseconds, a value and a step, and no name."""

import re
from typing import Final

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.number import NUMBER, to_float, to_step
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.sample import Sample

MLFLOW_LINE: Final = re.compile(rb"(\d{13}) (" + NUMBER + rb") (\d{1,15})\s*$")
"""One of its lines."""


class MlflowMetric(LineParser):
    """Parser of such a file; of those in a directory only a loss is chosen (`following.log_choice`)."""

    def __init__(self, options: FormatOptions) -> None:
        self.choice = MetricChoice(options.metric)
        self._name = options.metric or "loss"

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this line."""
        found = MLFLOW_LINE.match(line)
        if found is None:
            return None
        candidate = self.choice.candidate(self._name)
        value = to_float(found[2])
        picked = None if candidate is None or value is None else self.choice.pick([(candidate, value)])
        if picked is None:
            return None
        return Sample(picked[0], picked[1], to_step(found[3]), time=int(found[1]) / 1000)
