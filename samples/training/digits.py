"""The digits data set: 1797 handwritten digits of 8x8 pixels, as it ships inside scikit-learn."""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

CLASSES = 10
SIDE = 8
PIXELS = SIDE * SIDE
_BRIGHTEST = 16.0


def load() -> tuple[Tensor, Tensor]:
    """Images as float32 in 0 to 1, shape (1797, 8, 8), and labels as int64, shape (1797,).

    The file is read directly: `sklearn.datasets` gives the same numbers, but importing it nearly doubles the
    start of a training process. Raises FileNotFoundError when scikit-learn or its file is missing.
    """
    with gzip.open(_path(), "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    images = torch.from_numpy(table[:, :PIXELS] / _BRIGHTEST).reshape(-1, SIDE, SIDE)
    return images, torch.from_numpy(table[:, PIXELS].astype(np.int64))


def _path() -> Path:
    package = find_spec("sklearn")  # finds the package without running it
    if package is None or package.origin is None:
        raise FileNotFoundError("scikit-learn is not installed, and the digits data set ships inside it")
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
