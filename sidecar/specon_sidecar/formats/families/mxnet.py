"""Logs of MXNet and gluon."""

from typing import Final

from specon_sidecar.formats.family import BLANK, Family

_METRICS: Final = (
    *(
        r"loss",
        r".*total.?loss",
        r"(?!.*(?:val|test)).*loss",
        r"(?!.*val).*(?:cross-?entropy|perplexity|ppl)",
        r"(?!.*val).*smooth-?l1",
    ),
    *(r"(?!.*val).*accuracy", r"(?!.*val)(?:.*\W)?+\w*acc\w*"),
)

MXNET: Final = (
    Family(
        name="mxnet",
        writers="MXNet Speedometer (one line per metric, or all on one)",
        needles=(b"Epoch[", b"Batch", b"Speed: "),
        line=r"^\s*(?:Node\[\d+\] )?Epoch\[(?P<epoch>\d+)\] "
        r"Batch ?\[(?:\d+-)?(?P<i>\d+)\](?:/\[(?P<n>\d+)\])?",
        also=r"^\s*(?:Node\[\d+\] )?Epoch\[(?P<eval_epoch>\d+)\] Validation-",
        metrics=_METRICS,
        only=True,
    ),
    Family(
        name="gluon",
        writers="gluoncv, gluonnlp",
        needles=(b"[Epoch ", b"Batch ", b"="),
        line=r"^\[Epoch (?P<epoch>\d+)\]? ?\[?Batch (?P<i>\d+)(?:/(?P<n>\d+))?\]",
        metrics=_METRICS,
    ),
    Family(
        name="gluon-segmentation",
        writers="gluoncv's segmentation scripts",
        needles=(b" iteration ", b"training loss "),
        line=r"^\s*Epoch (?P<epoch>\d+) iteration (?P<i>\d+)/(?P<n>\d+): training loss ",
        pair=BLANK,
    ),
    Family(
        name="gluon-ssd",
        writers="MXNet SSD of the MLPerf submissions (each line twice)",
        needles=(b"[Training][Iteration ",),
        line=r"^\[Training\]\[Iteration (?P<step>\d+)\]\[Epoch (?P<epoch>\d+), Batch \d+/\d+\]",
    ),
)
