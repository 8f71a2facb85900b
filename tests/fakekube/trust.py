"""Which servers a webhook call trusts."""

import base64
import ssl


def context_of(bundle: str | None) -> ssl.SSLContext | bool:
    """Return the TLS context for a base64 CA bundle; True (the usual authorities) where there is none."""
    if not bundle:
        return True
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
