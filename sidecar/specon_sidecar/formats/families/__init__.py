"""The declarations of the families, by kind of framework, in one tuple."""

from typing import Final

from specon_sidecar.formats.families.bars import BARS
from specon_sidecar.formats.families.boosting import BOOSTING
from specon_sidecar.formats.families.classic import CLASSIC
from specon_sidecar.formats.families.language_models import LANGUAGE_MODELS
from specon_sidecar.formats.families.mxnet import MXNET
from specon_sidecar.formats.families.reinforcement import REINFORCEMENT
from specon_sidecar.formats.families.vision import VISION

FAMILIES: Final = (*BARS, *VISION, *LANGUAGE_MODELS, *BOOSTING, *CLASSIC, *MXNET, *REINFORCEMENT)
