"""Progress bars that print the metrics beside the bar."""

from typing import Final

from specon_sidecar.formats.family import Family

BARS: Final = (
    Family(
        name="keras",
        writers="Keras 2 and 3, verbose=1 and verbose=2",
        needles=(b" - ", b"/"),
        line=r"^\s*(?P<i>\d+)/(?P<n>\d+|Unknown) *(?:\[[=>.]*\]|(?:━)+|-) ",
        context=(b"Epoch ", r"^\s*Epoch (?P<epoch>\d+)/(?P<epochs>\d+)"),
        last_of_epoch=True,
    ),
    Family(
        name="progress-bar",
        writers="tqdm with a postfix, PyTorch Lightning, fastprogress",
        needles=(b"%|", b"["),
        # Bars of validation count for themselves.
        line=r"^(?!.{0,40}(?i:valid|val\b|eval|test|sanity|predict))"
        r"(?:.{0,40}?(?i:epoch)[^\d%]{0,3}(?P<epoch>\d+)(?:/(?P<epochs>\d+))?)?[^%]{0,60}?"
        r"\d{1,3}%\|[^|]{0,300}\| *(?P<i>\d+)/(?P<n>\d+) \[[^,\]]{1,40}, [^\]]{0,1000}?=",
        is_bar=True,
    ),
)
