"""The formats there are, and how a reader of one is made."""

import difflib
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from specon_sidecar.formats.blank_table import BlankTable
from specon_sidecar.formats.columns import TABLES, Columns
from specon_sidecar.formats.csv_header import CsvWithHeader
from specon_sidecar.formats.families import FAMILIES
from specon_sidecar.formats.family_parser import FamilyParser
from specon_sidecar.formats.framed_records import FramedRecords
from specon_sidecar.formats.json_lines import JsonLines
from specon_sidecar.formats.json_records import JsonRecords
from specon_sidecar.formats.key_value import KeyValue
from specon_sidecar.formats.mlflow import MlflowMetric
from specon_sidecar.formats.parser import Format, FormatOptions, Parser
from specon_sidecar.formats.reader import DetectingReader, FixedReader, Reader
from specon_sidecar.formats.regular_expression import RegularExpression
from specon_sidecar.formats.trainer_state import TrainerState

__all__ = ["AUTO", "FORMATS", "REGULAR_EXPRESSION", "FixedReader", "Reader", "make_parser", "make_reader"]

AUTO: Final = "auto"
REGULAR_EXPRESSION: Final = "regular-expression"

# In the order in which the detection breaks ties: the more particular first.
_FORMATS: Final = (
    *(
        Format(
            one.name,
            f"lines of {one.writers}",
            partial(FamilyParser, one),
            weight=one.weight,
            goal_known=one.goal_known,
            needles=one.sought(),
            writers=one.writers,
        )
        for one in FAMILIES
    ),
    *(
        Format(one.name, f"the table of {one.writers}", partial(Columns, one), weight=3, writers=one.writers)
        for one in TABLES
    ),
    Format(
        "trainer-state",
        "the whole file trainer_state.json",
        TrainerState,
        weight=3,
        rewritten=True,
        writers="transformers Trainer, in each checkpoint",
    ),
    Format(
        "json-records",
        "a list of records of JSON with each key on a line of its own",
        JsonRecords,
        needs_place=True,
        rewritten=True,
        writers="Chainer's `LogReport`, and scripts that write their history with `json.dump(..., indent=4)`",
    ),
    Format(
        "mlflow",
        "the file of one metric in MLflow's file store",
        MlflowMetric,
        weight=3,
        writers="MLflow, `mlruns/.../metrics/loss`",
    ),
    Format(
        "json-lines",
        "one JSON object per line",
        JsonLines,
        needles=(b"{",),
        writers=(
            "LLaMA-Factory, Detectron2 metrics.json, MMEngine scalars.json, Ray Tune, and many others;"
            " also a file that is one document with a list for each metric, such as Keras' `history`"
        ),
    ),
    Format(
        "csv",
        "a table whose header line names the columns",
        CsvWithHeader,
        needs_place=True,
        needles=(b",", b";", b"\t", b"|"),
        writers="Keras CSVLogger, Lightning metrics.csv, Ultralytics results.csv",
    ),
    Format(
        "columns",
        "a table whose columns stand below their names, with blanks between",
        BlankTable,
        needs_place=True,
        writers="DeePMD-kit (`lcurve.out`), and scripts that print tables for people",
    ),
    Format(
        "framed-records",
        "records in frames, with a name and a value on each row",
        FramedRecords,
        needs_place=True,
        writers="the loggers of OpenAI Baselines, rllab, rlkit and guided diffusion, and their heirs",
    ),
    Format(
        "key-value",
        "lines with key=value or key: value",
        KeyValue,
        writers="most scripts",
    ),
    Format(
        REGULAR_EXPRESSION,
        "a pattern with named groups",
        RegularExpression,
        detectable=False,
        writers="anything else",
    ),
)
FORMATS: Final[Mapping[str, Format]] = MappingProxyType({one.name: one for one in _FORMATS})


def make_parser(name: str, options: FormatOptions) -> Parser:
    """Return a new parser of a format. Raises ValueError for an unknown name or unfit options."""
    return _find(name, options).make(options)


def make_reader(name: str, options: FormatOptions) -> Reader:
    """Return a reader of a format of the table, or with "auto" one that finds it out.

    "auto" with a pattern is the format regular-expression. Raises ValueError as `make_parser` does.
    """
    if name == AUTO and options.pattern is None:
        return DetectingReader({one.name: one for one in _FORMATS if one.detectable}, options)
    return FixedReader(_find(REGULAR_EXPRESSION if name == AUTO else name, options), options)


def _find(name: str, options: FormatOptions) -> Format:
    try:
        found = FORMATS[name]
    except KeyError:
        meant = difflib.get_close_matches(name, [*FORMATS, AUTO], n=1)
        hint = f"; did you mean {meant[0]}?" if meant else ";"
        known = f"{', '.join(FORMATS)}, {AUTO}"
        raise ValueError(f"format {name!r} is unknown{hint} known are {known}") from None
    if options.pattern is not None and name != REGULAR_EXPRESSION:
        raise ValueError(
            f"pattern {options.pattern!r} is for the format {REGULAR_EXPRESSION}, not for {name!r}"
        )
    return found
