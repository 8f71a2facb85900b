"""Pages that people write, but for a table between two marks."""


def put_table(page: str, name: str, table: str) -> str:
    """Return the page with the table of that name; raises ValueError where the page lacks its marks."""
    begin, end = (f"<!-- {name}: {word} -->\n" for word in ("begin", "end"))
    head, found, rest = page.partition(begin)
    _, also, tail = rest.partition(end)
    if not found or not also:
        raise ValueError(f"the page lacks the lines {begin.strip()!r} and {end.strip()!r}")
    return f"{head}{begin}{table}{end}{tail}"
