"""For all tests."""

from typing import Any

from hypothesis import settings

# How long an example takes depends on what else the machine does; what is slow is for the benchmarks to find.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_make_parametrize_id(val: Any, argname: str) -> str | None:
    """Name binary values by their argument, so that the workers of a parallel run collect the same names.

    An archive, for one, holds the second it was made in.
    """
    return argname if isinstance(val, bytes) and not val.isascii() else None
