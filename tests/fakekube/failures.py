"""The refusals of an API server, as it words them: a `Status` object with a code, a reason and causes."""

from collections.abc import Sequence

from fakekube.kinds import Kind, Object

Cause = tuple[str, str, str]
"""Reason, message, field."""


class FailureError(Exception):
    """A request that was refused."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: Sequence[Cause] = (),
        retry_after: int | None = None,
        kind: str = "",
        name: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after
        self.kind = kind
        self.name = name

    def status(self) -> Object:
        """Return the body of the answer."""
        details: Object = {}
        if self.name:
            details["name"] = self.name
        if self.kind:
            details["kind"] = self.kind
        if self.causes:
            details["causes"] = [
                {"reason": reason, "message": message, **({"field": field} if field else {})}
                for reason, message, field in self.causes
            ]
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


def not_found(kind: Kind, name: str) -> FailureError:
    return FailureError(404, "NotFound", f'{kind.qualified} "{name}" not found', kind=kind.plural, name=name)


def already_exists(kind: Kind, name: str) -> FailureError:
    message = f'{kind.qualified} "{name}" already exists'
    return FailureError(409, "AlreadyExists", message, kind=kind.plural, name=name)


def conflict(kind: Kind, name: str, why: str) -> FailureError:
    message = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return FailureError(409, "Conflict", message, kind=kind.plural, name=name)


def modified(kind: Kind, name: str) -> FailureError:
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> FailureError:
    told = ", ".join(f"{field}: {message}" for _, message, field in causes)
    if len(causes) > 1:
        told = f"[{told}]"
    message = f'{kind.name}{"." + kind.group if kind.group else ""} "{name}" is invalid: {told}'
    return FailureError(422, "Invalid", message, causes=causes, kind=kind.name, name=name)


def bad_request(message: str) -> FailureError:
    return FailureError(400, "BadRequest", message)


def expired(message: str) -> FailureError:
    return FailureError(410, "Expired", message)
