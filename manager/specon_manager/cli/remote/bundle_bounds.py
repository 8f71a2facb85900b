"""How large a support bundle may be: those who write one and those who read one keep to it."""

from typing import Final

MOST_FILE_BYTES: Final = 16 << 20
MOST_BYTES: Final = 96 << 20
MOST_FILES: Final = 4096
FOLDER: Final = "specon-support/"
"""In which its files stand."""
