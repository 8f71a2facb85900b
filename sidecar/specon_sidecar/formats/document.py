"""The table of formats for `docs/log-formats.md`: `python -m specon_sidecar.formats.document` prints it."""

from typing import Final

from specon_sidecar.formats.parser import Format
from specon_sidecar.formats.table import FORMATS

BEGIN: Final = "<!-- table of formats: begin -->"
END: Final = "<!-- table of formats: end -->"


def table() -> str:
    """Return the table of formats in Markdown, with the marks that it stands between."""
    rows = [f"| `{one.name}` | {_cell(one.writers)} | {_found(one)} |" for one in FORMATS.values()]
    return "\n".join((BEGIN, "| format | written by | found |", "|---|---|---|", *rows, END))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _found(one: Format) -> str:
    if not one.detectable:
        return "by name, with a pattern"
    return "automatically, with steps or epochs" if one.needs_place else "automatically"


if __name__ == "__main__":
    print(table())  # noqa: T201 - this command's purpose is to print
