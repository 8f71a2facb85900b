"""Every reproduction by name, in the order in which they are shown."""

from importlib import import_module
from typing import Final

from specon_lab.reproduction.experiment import Reproduction

NAMES: Final = ("specon", "kod2", "kubeflow", "dragon", "fitgpp", "ours")
"""The papers, then specon's own policy against all of theirs. Each is a module of this package."""


def reproduction_named(name: str) -> Reproduction:
    """Return the reproduction; raises ValueError naming the known ones.

    Only its own module is imported: each brings the workloads and tables of one paper.
    """
    if name not in NAMES:
        raise ValueError(f"reproduction: {name!r} is not one of {', '.join(NAMES)}")
    found = import_module(f"specon_lab.reproduction.{name}").REPRODUCTION
    assert isinstance(found, Reproduction)
    return found
