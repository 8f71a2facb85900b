"""A manager's state from where it can be read: a file, a running manager, or a journal."""

import email.utils
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from specon_manager.core.state import State
from specon_manager.core.state_check import check_state, latest
from specon_manager.runtime.journal import NAME, JournalError, recover
from specon_manager.usage import UsageError

_SECONDS: Final = 30
_MOST_BYTES: Final = 512 * 1024 * 1024
_SCHEMES: Final = ("http://", "https://")
_PATH: Final = "/v1/state"
_FIELDS: Final = ("settings", "nodes", "jobs", "replicas")
"""Without these, an object is no state: each field has a default, so that anything could be read as one."""
_JOURNAL: Final = b'{"type":"begin"'
_SAME_CLOCK: Final = 3600.0  # seconds that an answer may be later than everything in it


class Read(Struct, frozen=True, kw_only=True):
    """A state and when it was so."""

    state: State
    now: float
    """Seconds on its manager's clock.

    A state does not say. A journal does; a manager's answer has the time of the wall clock, which is that of
    the manager unless it was set; of a file it is the latest time in it.
    """


def read_state(text: str, token: Path | None) -> Read:
    """Return the state that `--state` names; raises UsageError with the mistake."""
    if text.startswith(_SCHEMES):
        content, answered_at = _fetch(text, token)
        read = _check(text, _decode(text, content), None)
        if answered_at is None or not 0 <= answered_at - read.now <= _SAME_CLOCK:
            return read
        return Read(state=read.state, now=answered_at)
    path = Path(text)
    try:
        if path.is_dir():
            return _recover(path / NAME)
        with path.open("rb") as file:
            begin = file.read(len(_JOURNAL))
            if begin == _JOURNAL:
                return _recover(path)
            content = begin + file.read(_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"--state: {text}: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"--state: {text}: it is longer than {_MOST_BYTES} bytes")
    return _check(text, _decode(text, content), None)


def _recover(path: Path) -> Read:
    try:
        found = recover(path)
    except JournalError as error:
        raise UsageError(f"--state: {error}") from error
    if found is None:
        raise UsageError(f"--state: {path}: there is no journal")
    return _check(str(path), found.state, found.last_at)


def _decode(source: str, content: bytes) -> State:
    if not content.strip():
        raise UsageError(f"--state: {source}: it is empty")
    try:
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        missing = [name for name in _FIELDS if name not in fields]
        if missing:
            raise UsageError(f"--state: {source}: no state of a manager: it has no {', '.join(missing)}")
        return msgspec.json.decode(content, type=State)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--state: {source}: no state of a manager: {error}") from error


def _check(source: str, state: State, now: float | None) -> Read:
    try:
        check_state(state)
    except ValueError as error:
        raise UsageError(f"--state: {source}: {error}") from error
    return Read(state=state, now=latest(state) if now is None else now)


def _fetch(url: str, token: Path | None) -> tuple[bytes, float | None]:
    """Return the answer, and when it was given, seconds since the epoch, where it says so."""
    address = url if url.rstrip("/").endswith(_PATH) else url.rstrip("/") + _PATH
    headers = {}
    if token is not None:
        try:
            headers["Authorization"] = f"Bearer {token.read_text().strip()}"
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token: {token}: {error}") from error
    try:
        request = urllib.request.Request(address, headers=headers)  # noqa: S310  (http or https, see above)
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310  (the same)
            content: bytes = response.read(_MOST_BYTES + 1)
            date = email.utils.parsedate_tz(response.headers.get("Date", ""))
    except urllib.error.HTTPError as error:
        hint = "; --token FILE names the owner's token" if error.code in {401, 403} else ""
        raise UsageError(f"--state: {address} answered {error.code} {error.reason}{hint}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"--state: no manager answers at {address}: {error}") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"--state: {address}: the answer is longer than {_MOST_BYTES} bytes")
    return content, None if date is None else float(email.utils.mktime_tz(date))
