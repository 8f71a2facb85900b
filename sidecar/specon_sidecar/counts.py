"""Numbers with their nouns, as people read them: `1 job`, `2 jobs`. Pure."""


def format_count(number: float, noun: str, plural: str = "", *, form: str = "") -> str:
    """Return a number and its noun in the number that fits; `form` is the number's, as `,` in `1,200`.

    The plural is the noun with an s unless another is given.
    """
    shown = f"{number:{form or '.12g'}}"
    return f"{shown} {noun if number == 1 else plural or noun + 's'}"


def format_times(number: int) -> str:
    """Return how often something happened: `once`, `3 times`."""
    return "once" if number == 1 else f"{number} times"
