"""The table of checkpoint formats, from their declarations."""

from specon_sidecar.checkpoints.table import TABLE, CheckpointFormat


def table() -> str:
    """Return the table: a line for each format, in the order in which they are tried."""
    lines = [
        "| written by | for instance | complete when | step | a sample is enough |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {_cells(declared)} |" for declared in TABLE]
    return "\n".join(lines) + "\n"


def _cells(declared: CheckpointFormat) -> str:
    steps = " else ".join(dict.fromkeys(map(str, declared.steps))) or "the log's, when it was first seen"
    sampled = "yes" if declared.marked or declared.declares else "with a marker, or of archives alone"
    return " | ".join((declared.title, f"`{declared.example}`", declared.complete, steps, sampled))
