"""The page's files, read once from the package, and the headers under which they, and all else, are sent."""

from collections.abc import Mapping
from importlib import resources
from typing import Final

from msgspec import Struct

ENTRY: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}

_SOURCES: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    # Text from logs can become text on the page and nothing else: what would parse it as HTML throws.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "; ".join(_SOURCES),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class PageFile(Struct, frozen=True):
    """One file as it is sent."""

    body: bytes
    content_type: str


def read_files() -> dict[str, PageFile]:
    """Return the files by name: there is no other way from a request to a file."""
    found = {}
    for entry in resources.files("specon_manager.runtime.page").joinpath("static").iterdir():
        content_type = _TYPES.get(entry.name[entry.name.rfind(".") :])
        if content_type is not None:
            found[entry.name] = PageFile(entry.read_bytes(), content_type)
    return found
