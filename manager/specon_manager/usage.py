"""The error that a person at the terminal can mend."""


class UsageError(Exception):
    """Something that the person at the terminal can mend; the text says what."""
