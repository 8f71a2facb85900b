"""The table of the log formats, from their declarations."""

from specon_sidecar.formats.parser import Format
from specon_sidecar.formats.table import FORMATS


def table() -> str:
    """Return all of them as a table in Markdown."""
    rows = [f"| `{one.name}` | {_cell(one.writers)} | {_find(one)} |" for one in FORMATS.values()]
    return "\n".join(("| format | written by | found |", "|---|---|---|", *rows)) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _find(one: Format) -> str:
    if not one.detectable:
        return "by name, with a pattern"
    return "automatically, with steps or epochs" if one.needs_place else "automatically"
