"""What keeps people from using a page, as axe-core sees it."""

import pytest


async def findings(page):
    """Return what axe-core calls serious or critical, each with its first element."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="no axe: pip install '.[dev]'")
    # The page's policy lets no script in; what a test evaluates is not under it.
    results = await axe.Axe().run(page)
    return [
        (found["id"], found["impact"], found["nodes"][0]["html"][:200])
        for found in results.response["violations"]
        if found["impact"] in {"serious", "critical"}
    ]
