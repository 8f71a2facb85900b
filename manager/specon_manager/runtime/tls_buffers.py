"""How much memory a TLS connection takes: asyncio gives each a buffer of 256 KiB, all of it at once."""

from asyncio import sslproto
from typing import Final

BYTES: Final = 2 * 1024
"""About a report; a longer message is read in several turns."""


def use_small_tls_buffers() -> None:
    """Give TLS connections that are made from now on small buffers: sidecars keep ten thousand open.

    With those of asyncio each replica would cost more than everything that is known of ten of them. Where a
    later asyncio sizes its buffers in another way this changes nothing.
    """
    if hasattr(sslproto.SSLProtocol, "max_size"):
        sslproto.SSLProtocol.max_size = BYTES
