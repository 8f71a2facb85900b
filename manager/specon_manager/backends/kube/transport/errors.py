"""What a call to the API server may end in: it says no, or nobody knows."""

from typing import Any, Final

_LONGEST: Final = 400
_END: Final = 120
"""Characters of a message; the end of a long one names the mistake in the dump before it."""


class ApiError(Exception):
    """The API server answered, and the answer is no: nothing was done."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        """As in a Status object, such as `NotFound`."""
        self.message = message
        self.causes = causes
        """The reasons of the causes that the server gives."""
        self.retry_after = retry_after
        """Seconds that the server wants to be left alone, where it says so."""

    @property
    def not_found(self) -> bool:
        """Whether there is no such object, or no such resource."""
        return self.status == 404  # noqa: PLR2004  (the codes of HTTP are their own names here and below)

    @property
    def no_namespace(self) -> bool:
        """Whether nothing can be made in the namespace: it is going, or gone."""
        return "NamespaceTerminating" in self.causes or (self.not_found and 'namespaces "' in self.message)

    @property
    def conflict(self) -> bool:
        """Whether the object is not any more what the caller took it for: another version or another uid."""
        return self.status == 409 and not self.already_exists  # noqa: PLR2004

    @property
    def already_exists(self) -> bool:
        """Whether there is an object of that name."""
        return self.status == 409 and self.reason == "AlreadyExists"  # noqa: PLR2004

    @property
    def expired(self) -> bool:
        """Whether a resourceVersion or a continue token is too old: everything is to be listed again."""
        return self.status == 410  # noqa: PLR2004

    @property
    def invalid(self) -> bool:
        """Whether the object, or the change of it, breaks the rules for its kind."""
        return self.status == 422  # noqa: PLR2004

    @property
    def immutable(self) -> bool:
        """Whether a field was to be changed that nobody may change: the server's word, or a webhook's."""
        return self.status in {400, 403, 422} and "immutable" in self.message

    @property
    def blocked(self) -> bool:
        """Whether a PodDisruptionBudget stands against an eviction."""
        return self.status == 429 and "DisruptionBudget" in self.causes  # noqa: PLR2004

    @property
    def throttled(self) -> bool:
        """Whether the server has too much to do."""
        return self.status == 429 and not self.blocked  # noqa: PLR2004


class ApiUnavailableError(Exception):
    """No usable answer: no connection, a time limit, or a failure of the server.

    Where something was to be changed nobody knows whether it was: read before it is tried again.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """The status of HTTP, 5xx, where there was an answer."""


class AnswerTooLargeError(ApiUnavailableError):
    """An answer that is longer than any that is read into memory."""


def error_of(status: int, body: Any, text: str, retry_after: str | None) -> ApiError | ApiUnavailableError:
    """Return the error that an answer stands for; `body` is its JSON (None: not JSON), `text` the call."""
    answer = body if isinstance(body, dict) else {}
    reason, message = _cut(answer.get("reason") or "Unknown"), _cut(answer.get("message") or "no words")
    if status >= 500:  # noqa: PLR2004
        return ApiUnavailableError(f"{text}: {status} {reason}: {message}", status=status)
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    listed = [cause for cause in details.get("causes") or () if isinstance(cause, dict)]
    causes = tuple(_cut(cause.get("reason", "")) for cause in listed)
    if status == 429:  # noqa: PLR2004
        # Only here does the server say which disruption budget it is; elsewhere the message has everything.
        words = (str(cause["message"]) for cause in listed if cause.get("message"))
        message = _cut(" ".join([message, *words]))
    return ApiError(
        status,
        reason,
        f"{text}: {message}",
        causes=causes,
        retry_after=_seconds(retry_after or details.get("retryAfterSeconds")),
    )


def _cut(given: object) -> str:
    """Return the words in one line, without the middle of long ones: they become reasons that people read."""
    text = " ".join(str(given).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END]} … {text[-_END:]}"


def _seconds(value: Any) -> float | None:
    """Return the number in a Retry-After; one that is a date is not of the API server's, and no number."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 < seconds < float("inf") else None
