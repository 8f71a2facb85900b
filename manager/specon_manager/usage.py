"""The errors that a person at the terminal can mend."""


class UsageError(Exception):
    """Something that the person at the terminal can mend; the text says what."""


class LabMissingError(UsageError):
    """The lab is not installed; the text says how to get it."""

    def __init__(self) -> None:
        super().__init__(
            "the simulator is not part of this installation: pip install 'specon[simulate]' has it"
        )
