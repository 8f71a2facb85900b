"""Answers over HTTP: JSON, mistakes in words, and when to come again."""

from typing import Final

from aiohttp import web

STANDBY_SECONDS: Final = 2
"""After which another manager may have taken over."""


def json_answer(body: bytes, status: int = 200) -> web.Response:
    """Return an answer with this JSON."""
    return web.Response(body=body, status=status, content_type="application/json")


def problem(status: int, message: str) -> web.Response:
    """Return an answer that names the mistake."""
    return web.json_response({"error": message}, status=status)


def come_again(seconds: int, message: str, status: int = 503) -> web.Response:
    """Return an answer that says why this cannot be done now, and after how many seconds to ask again."""
    response = problem(status, message)
    response.headers["Retry-After"] = str(seconds)
    return response


def standby() -> web.Response:
    """Return the answer of a manager that does not lead."""
    return come_again(STANDBY_SECONDS, "this manager is a standby: another one leads, or is about to")


def bearer_token(request: web.Request) -> str | None:
    """Return the token that a request shows, None where it shows none."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None
