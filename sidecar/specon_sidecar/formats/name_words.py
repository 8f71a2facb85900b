"""The words of a name, and those that say of which data it is."""

import re
from typing import Final

_TURNED_ROUND: Final = {
    "loss_total": "total_loss",
    "loss_train": "train_loss",
    "loss_training": "training_loss",
}

# A part of the name that makes it something else than the training loss.
VALIDATION: Final = frozenset(
    {"val", "valid", "validation", "va", "vld", "eval", "evaluation", "test", "testing", "tst", "dev"}
)
NO_LOSS: Final = frozenset(
    {
        *("scale", "scaler", "scaling", "weight", "weights", "coef", "coefficient", "factor", "ratio"),
        *("best", "min", "lowest", "target", "stop", "packet", "packets", "profit", "data", "heat"),
        *("num", "count"),
    },
)

# Words that tell a series of the training from its counterpart of validation, but not the measured quantity.
OF_TRAINING: Final = frozenset(
    {
        *("train", "training", "trainer", "tr", "trn", "learn", "step", "epoch", "batch", "minibatch"),
        *("avg", "average", "mean", "running", "total"),
    },
)

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|[^\W\d_A-Za-z]+")


def words(name: str) -> list[str]:
    """Return the words of a name in lower case: "ValLoss", "val_loss" and "val/loss" have the same two."""
    return [word.casefold() for word in _WORD.findall(name)]


def canonical(name: str) -> str:
    """Return the form in which names are compared with `PREFERRED`."""
    key = re.sub(r"[ /.()-]+", "_", name.casefold()).rstrip("_")
    return _TURNED_ROUND.get(key, key)


def fold(name: str) -> str:
    """Return the form in which a configured name is compared: any case, any blanks."""
    return " ".join(name.casefold().split())
