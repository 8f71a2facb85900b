"""The trainer's helper, copied to where a trainer finds it: `copy-helper TARGET`, for an init container."""

import shutil
import site
import sys
from pathlib import Path
from typing import Final

_HELPER: Final = "specon"


def helper_folder() -> Path:
    """Return the folder to name in `PYTHONPATH`: that of a checkout, else of the installation.

    Raises FileNotFoundError where there is none.
    """
    prefixes = (sys.prefix, site.getuserbase())
    installed = [Path(prefix) / "share" / "specon" / "trainer" for prefix in prefixes]
    # A checkout that is installed in place has a copy beside it, of when that was done.
    places = (Path(__file__).resolve().parents[2] / "trainer", *installed)
    for place in places:
        if (place / _HELPER / "__init__.py").is_file():
            return place
    raise FileNotFoundError(f"the trainer's helper is in none of {', '.join(map(str, places))}")


def copy_helper(target: Path) -> None:
    """Copy the helper so that any user may read it; this overwrites an earlier copy.

    Raises OSError, also where there is nothing to copy.
    """
    source = helper_folder()
    for file in sorted(source.rglob("*.py")):
        copied = target / file.relative_to(source)
        for folder in reversed([one for one in copied.parents if target in (one, *one.parents)]):
            folder.mkdir(exist_ok=True, parents=True)
            folder.chmod(0o755)
        shutil.copyfile(file, copied)
        copied.chmod(0o644)
