"""The reference of the annotations, from the table that reads them."""

from specon_manager.backends.kube.objects.annotations import ANNOTATIONS


def table() -> str:
    """Return all of them as a table in Markdown."""
    rows = ["| annotation | default | meaning | example |", "|---|---|---|---|"]
    for one in ANNOTATIONS:
        example = one.example.replace("|", "\\|")
        rows.append(f"| `{one.key}` | {one.default} | {one.meaning} | `{example}` |")
    return "\n".join(rows) + "\n"
