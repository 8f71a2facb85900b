"""The certificate authorities of the system: read once where they are asked for, and by nobody before.

`aiohttp` reads all of them twice as it is imported, also for a manager that is called without TLS. A sidecar
starts on the processor on which its trainer starts at the same time.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator
from functools import cache
from typing import Final

_FILE: Final = "SSL_CERT_FILE"
"""What OpenSSL calls the file of authorities, in place of the one that it was built with."""


@contextlib.contextmanager
def leave_unread() -> Iterator[None]:
    """Let a library that is imported here find no authorities: its users name those they trust.

    Only for a process that has no other thread yet, for it changes the environment meanwhile.
    """
    known = os.environ.get(_FILE)
    os.environ[_FILE] = os.devnull
    try:
        yield
    finally:
        del os.environ[_FILE]
        if known is not None:
            os.environ[_FILE] = known


@cache
def system_context() -> ssl.SSLContext:
    """Return a context that trusts whom this system trusts, as they were at the first call."""
    return ssl.create_default_context()


def trust_for(url: str) -> ssl.SSLContext | bool:
    """Return what a request to `url` is given as `ssl`: only one with TLS needs to know whom to trust."""
    return system_context() if url.lower().startswith("https:") else True
