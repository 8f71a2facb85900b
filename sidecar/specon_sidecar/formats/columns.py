"""Tables for people: a heading names the columns, rows of numbers follow, blanks between.

The heading's names may hold single blanks (`Train Loss`); cells may not. A bar or text may follow the cells.
"""

import re
from typing import Final

import msgspec

from specon_sidecar.formats.metric_choice import MetricChoice
from specon_sidecar.formats.metric_names import SUM_OF_PARTS
from specon_sidecar.formats.number import NUMBER
from specon_sidecar.formats.parser import FormatOptions, LineParser
from specon_sidecar.formats.prefixes import strip
from specon_sidecar.formats.record import RecordReader
from specon_sidecar.formats.sample import Sample

_GAP: Final = re.compile(r"\s{2,}")
_TOTAL: Final = re.compile(rb"(\d{1,15})/(\d{1,15})")
_PERCENT: Final = re.compile(rb"(\d{1,3})%(?=[|\s])")
_NUMBER: Final = re.compile(NUMBER)


class ColumnsFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A table that one framework prints."""

    name: str
    writers: str
    heading: bytes
    """Bytes that the heading holds."""
    rename: dict[str, str] = {}
    """What columns are about, where their name does not say it: `#` of spaCy is the step."""
    metrics: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    """Columns whose sum is the loss."""


class Columns(LineParser):
    """Parser of the rows below a heading."""

    def __init__(self, family: ColumnsFamily, options: FormatOptions) -> None:
        self._family = family
        self.woken_by = (family.heading,)
        names = (SUM_OF_PARTS, *family.metrics) if family.parts else family.metrics
        self.choice = MetricChoice(options.metric, names)
        self._records = RecordReader(self.choice, family.parts)
        self._columns: list[str] = []
        self._ended: bytes | None = None
        self._from_zero = False

    @property
    def is_awake(self) -> bool:
        """Whether the heading has come."""
        return bool(self._columns)

    def parse(self, line: bytes) -> Sample | None:
        """Return the sample of this row; take the line for the heading if it is one."""
        if self._family.heading in line:
            text = strip(line).text.decode("utf-8", "replace").strip()
            rename = self._family.rename
            self._columns = [rename.get(name, name) for name in _GAP.split(text)]
            return None
        if not self._columns:
            return None
        text_bytes = line.lstrip()
        if not text_bytes[:1].isdigit() and text_bytes[:1] != b"\x1b":
            return None
        percent = _PERCENT.search(line)
        if percent is not None and percent[1] != b"100":
            self._ended = None
            return None  # before the end of its bar the row is not whole
        cells = strip(line).text.split()
        if len(cells) < len(self._columns) or not _NUMBER.match(cells[0]):
            return None
        total_epochs: int | None = None
        fraction = _TOTAL.fullmatch(cells[0])
        if fraction is not None:
            # `0/2` is the first of three.
            self._from_zero |= int(fraction[1]) == 0
            cells[0], total_epochs = fraction[1], int(fraction[2]) + self._from_zero
        sample = self._records.sample(zip(self._columns, cells, strict=False))
        if sample is None or (percent is not None and not self._ends_now(cells[0])):
            return None
        if total_epochs is None:
            return sample
        return msgspec.structs.replace(sample, total_epochs=total_epochs)

    def _ends_now(self, place: bytes) -> bool:
        """Whether a bar behind the row that is at its end is there for the first time."""
        ended, self._ended = self._ended, place
        return ended != place


TABLES: Final = (
    ColumnsFamily(
        name="ultralytics",
        writers="Ultralytics YOLO, console (the sum of the losses; the last state of an epoch's bar)",
        heading=b" GPU_mem ",
        parts=("box_loss", "cls_loss", "dfl_loss", "obj_loss", "seg_loss", "pose_loss", "kobj_loss"),
    ),
    ColumnsFamily(
        name="yolov5",
        writers="YOLOv5, Ultralytics' YOLOv3, console (the sum of the losses at the end of an epoch)",
        heading=b" gpu_mem ",
        parts=("box", "GIoU", "obj", "cls"),
    ),
    ColumnsFamily(
        name="spacy",
        writers="spaCy train (losses since the last row)",
        heading=b"  LOSS ",
        rename={"E": "epoch", "#": "step"},
        metrics=("LOSS (?!TOK2VEC).*", "LOSS .*"),
    ),
    ColumnsFamily(
        name="scikit-learn-boosting",
        writers="scikit-learn's gradient boosting, verbose=1",
        heading=b"Iter       Train Loss",
    ),
    ColumnsFamily(
        name="fastai",
        writers="fastai",
        heading=b"train_loss  ",
        metrics=("train_loss",),
    ),
)
