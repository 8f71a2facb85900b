"""The reference of the annotations, from the table that reads them."""

from specon_manager.backends.kube.objects.annotations import ANNOTATIONS


def page() -> str:
    """Return the page, as Markdown."""
    return (
        "# Annotations\n\n"
        "Generated from the code: `python -m specon_tools.documentation`. On the pod, which means on the\n"
        "pod template of its owner; what they are for is told in [On Kubernetes](../kubernetes.md). A wrong\n"
        "value and a key that is not known are refused when the pod is created.\n\n" + table()
    )


def table() -> str:
    """Return all of them as a table in Markdown."""
    rows = ["| annotation | default | meaning | example |", "|---|---|---|---|"]
    for one in ANNOTATIONS:
        example = one.example.replace("|", "\\|")
        rows.append(f"| `{one.key}` | {one.default} | {one.meaning} | `{example}` |")
    return "\n".join(rows) + "\n"
