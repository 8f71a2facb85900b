"""Programs that tests use where they are there: $NAME in capitals, else in PATH."""

import os
import shutil

import pytest


def program(name: str) -> str:
    """Return the path of a program; skips the test where it is not there."""
    found = os.environ.get(name.upper()) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: name one in ${name.upper()} or put it in PATH (Debian: prometheus)")
    return found
