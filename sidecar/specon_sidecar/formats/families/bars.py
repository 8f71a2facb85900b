"""Progress bars that print the metrics beside the bar."""

from typing import Final

from specon_sidecar.formats.family import NUM, Family

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
        name="nemo",
        writers="NeMo (its bar counts the whole training)",
        needles=(b"reduced_train_loss", b"consumed_samples"),
        line=r"^\s*(?:Epoch \d+: {1,8}\d{1,3}%\|[^|]{0,300}\| *|Training epoch \d+, iteration )"
        r"(?P<step>\d+)/(?P<total>\d+) ",
        pair=r"\b(reduced_train_loss|val_loss)(?:=|: )(" + NUM + r")",
        metrics=("reduced_train_loss",),
        only=True,
        is_bar=True,
    ),
    Family(
        name="progress-bar",
        writers="tqdm with a postfix, PyTorch Lightning, fastprogress",
        needles=(b"%|", b"["),
        # Bars of validation count for themselves.
        line=r"^(?!.{0,40}(?i:valid|val\b|eval|test|sanity|predict))"
        r"(?:.{0,40}?(?:(?i:epoch)[^\d%]{0,3}|\b(?=\d{1,9}/\d{1,9}: ))(?P<epoch>\d+)(?:/(?P<epochs>\d+))?)?"
        r"[^%]{0,60}?"
        r"\d{1,3}%\|[^|]{0,300}\| *(?P<i>\d+)/(?P<n>\d+) \[[^,\]]{1,40}, [^\]]{0,1000}?[=:]",
        is_bar=True,
    ),
)
