"""What a manager's directory tells for a support bundle: journal, log and settings, without secrets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from specon_manager.cli.remote.redaction import drop_secrets, scrub
from specon_manager.runtime.journal import NAME, JournalError, recover

_JOURNAL_BYTES: Final = 8 << 20
_LOG_BYTES: Final = 1 << 20
_SIDECAR_BYTES: Final = 64 << 10
_SIDECARS: Final = 50
_LONGEST_BEGIN: Final = 64 << 20


def collect_evidence(directory: Path, files: Mapping[str, bytes], token: str) -> dict[str, bytes]:
    """Return the files of a bundle: those that the manager gave, and those of its directory."""
    secrets = [token, *_secrets(directory)]
    found = dict(files)
    if "state.json" not in found and (recovered := _recover(directory / NAME)) is not None:
        found["state.json"] = recovered
    if "state.json" in found:
        found["state.json"] = _clean(found["state.json"])
        found["settings.json"] = _settings(found["state.json"])
    found |= _journal(directory / NAME)
    found |= _tail(directory / "manager.log", "manager.log", _LOG_BYTES)
    logs = [path for path in directory.glob("replicas/*/incarnations/*/sidecar.log") if path.is_file()]
    logs.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in logs[:_SIDECARS]:
        name = "-".join(path.relative_to(directory / "replicas").parts[:-1:2])
        found |= _tail(path, f"sidecars/{name}.log", _SIDECAR_BYTES)
    return {
        name: scrub(content.decode(errors="replace"), secrets).encode() for name, content in found.items()
    }


def _secrets(directory: Path) -> list[str]:
    found = []
    for name in ("key", "token"):
        try:
            found.append((directory / name).read_text("ascii").strip())
        except (OSError, UnicodeDecodeError):
            continue
    return found


def _recover(path: Path) -> bytes | None:
    try:
        found = recover(path)
    except (JournalError, OSError) as error:
        return json.dumps({"error": str(error)}).encode()
    return None if found is None else msgspec.json.encode(found.state.flatten())


def _clean(content: bytes) -> bytes:
    try:
        return json.dumps(drop_secrets(json.loads(content)), indent=1).encode()
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}\n".encode()


def _settings(state: bytes) -> bytes:
    try:
        return json.dumps(json.loads(state).get("settings"), indent=1).encode()
    except (ValueError, AttributeError):
        return b"null\n"


def _journal(path: Path) -> dict[str, bytes]:
    """Return the first line of the journal and its latest ones, each without what has secrets in it."""
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        begin = file.readline(_LONGEST_BEGIN)
        rest = max(file.tell(), path.stat().st_size - _JOURNAL_BYTES)
        cut = rest > file.tell()
        file.seek(rest)
        lines = file.read(_JOURNAL_BYTES).split(b"\n")
    whole = lines[1:] if cut else lines
    kept = [cleaned for line in (begin, *whole) if (cleaned := _clean_line(line)) is not None]
    left_out = [b'{"left_out": "older steps"}'] if cut else []
    return {"journal.jsonl": b"\n".join([*kept[:1], *left_out, *kept[1:], b""])}


def _clean_line(line: bytes) -> bytes | None:
    if not line.strip():
        return None
    try:
        return json.dumps(drop_secrets(json.loads(line)), separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return None  # cut off by a crash


def _tail(path: Path, name: str, most: int) -> dict[str, bytes]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - most))
            content = file.read(most)
    except OSError:
        return {}
    return {name: content.partition(b"\n")[2] if size > most else content}
