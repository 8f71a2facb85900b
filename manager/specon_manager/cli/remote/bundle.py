"""What `specon support-bundle` wrote, in place of a manager: read only, and within its bounds."""

import json
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from specon_manager.backends.kube.objects.fields import mappings
from specon_manager.backends.kube.records.job_record import read_training_job
from specon_manager.backends.kube.records.migration_record import read_migration
from specon_manager.backends.kube.records.progress_record import read_progress
from specon_manager.backends.kube.transport.resources import Object
from specon_manager.cli.remote.bundle_bounds import FOLDER, MOST_BYTES, MOST_FILE_BYTES, MOST_FILES
from specon_manager.cli.remote.cluster_records import (
    Records,
    image_versions,
    remarks_of,
    state_of,
    view_of,
    with_leases,
)
from specon_manager.cli.remote.local import view_of as view_of_state
from specon_manager.cli.remote.log_end import LogEnd
from specon_manager.cli.remote.redaction import LEFT_OUT
from specon_manager.cli.remote.remote import ReadJournal, Remark, RequestRefusedError, Wanted
from specon_manager.core.state import State
from specon_manager.core.state_check import latest
from specon_manager.runtime.journal import recover
from specon_manager.usage import UsageError
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.view import View

_PROGRESSES: Final = "trainingprogresses.json"
_STATE: Final = "state.json"


class BundleRemote:
    """A support bundle of a manager of one machine, or of a cluster's."""

    journal = None
    pause_words = ""

    def __init__(self, path: Path) -> None:
        """Read it; raises UsageError where it is none."""
        self._path = path
        self._files = files_in(path)
        if _STATE not in self._files and _PROGRESSES not in self._files:
            raise UsageError(
                f"--bundle: {path}: no state of a manager is in it: specon support-bundle writes one"
            )

    @property
    def where(self) -> str:
        """The file."""
        return f"support bundle {self._path}"

    @property
    def files(self) -> Mapping[str, bytes]:
        """Its files, by name."""
        return self._files

    async def view(self, read: ReadJournal = recover) -> View:
        """Return the view of when it was written; raises UsageError for a state of another version."""
        del read
        at = self._read_time()
        if _STATE in self._files:
            try:
                state = msgspec.convert(_without_gaps(self._json(_STATE)), State)
            except msgspec.ValidationError as error:
                raise UsageError(f"--bundle: {self._path}: {_STATE}: of another version: {error}") from error
            answers = f"{_STATE}.missing" not in self._files
            words = (
                () if answers else ("no manager answered when it was written: this is what its journal says",)
            )
            view = view_of_state(state, max(at, latest(state)), words)
            return msgspec.structs.replace(view, answers=answers)
        missing = self._files.get("missing.txt", b"").decode(errors="replace").splitlines()
        records = Records(
            progresses=[
                p for each in self._objects(_PROGRESSES) if (p := read_progress(each)[0]) is not None
            ],
            migrations=[read_migration(each)[0] for each in self._objects("migrations.json")],
            jobs=[
                j
                for each in self._objects("trainingjobs.json")
                if (j := read_training_job(each)[0]) is not None
            ],
            queues=self._objects("trainingqueues.json"),
            unknown=tuple(f"not in the bundle: {line}" for line in missing),
        )
        state, caveats = with_leases(state_of(records, at), self._objects("leases.json"))
        return view_of(state, records, caveats, at)

    async def whole(self, concerned: Callable[[State], Iterable[str]]) -> View:
        """Return what there is; raises UsageError of a cluster, whose pods and volumes are not in it."""
        del concerned
        if _STATE not in self._files:
            raise UsageError("pods and volumes are not in a support bundle")
        return await self.view()

    async def log_end(self, replica: str) -> LogEnd | None:
        """Training logs are not read from here."""
        del replica
        return None

    async def remarks(self, job: str) -> Sequence[Remark]:
        """Return the manager's events that are in it."""
        namespace = job.partition("/")[0]
        events = self._objects("events.json")
        return remarks_of([e for e in events if (e.get("metadata") or {}).get("namespace") == namespace], job)

    async def versions(self) -> Mapping[str, str]:
        """Return the versions that wrote it, and the images of the managers."""
        journal = self._files.get("journal.jsonl", b"").partition(b"\n")[0]
        began = _mapping(_decode(journal)).get("version")
        found = {"journal": began} if isinstance(began, str) else {}
        told = _mapping(_decode(self._files.get("versions.json", b""))).get("specon")
        found |= {"the specon that wrote the bundle": told} if isinstance(told, str) else {}
        pods = [pod for name in self._files if name.endswith("/pods.json") for pod in self._objects(name)]
        return found | image_versions(pods)

    async def moves(self, names: Collection[str]) -> Mapping[str, TransactionRow]:
        """Look for them in the view."""
        return {row.id: row for row in (await self.view()).transactions if row.id in names}

    async def is_cordoned(self, node: str) -> bool | None:
        """Nobody knows."""
        del node
        return None

    async def objection(self, replica: str) -> tuple[str | None, str | None]:
        """Nothing can be tried."""
        del replica
        return None, "whether its pod could be evicted is not asked: this is a support bundle"

    async def ask(self, wanted: Wanted, reason: str) -> TransactionRow:
        """Refuse."""
        del wanted, reason
        _refuse()

    async def cancel(self, name: str) -> TransactionRow:
        """Refuse."""
        del name
        _refuse()

    async def set_pause(self, reason: str | None) -> None:
        """Refuse."""
        del reason
        _refuse()

    async def evidence(self) -> Mapping[str, bytes]:
        """Return its files."""
        return self._files

    async def close(self) -> None:
        """Nothing is open."""

    def _read_time(self) -> float:
        told = _mapping(_decode(self._files.get("versions.json", b""))).get("at")
        try:
            return datetime.fromisoformat(str(told)).timestamp()
        except (ValueError, OverflowError):
            return 0.0

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._files[name])
        except (ValueError, RecursionError) as error:
            raise UsageError(f"--bundle: {self._path}: {name}: not JSON: {error}") from error

    def _objects(self, name: str) -> list[Object]:
        return [{**each} for each in mappings(self._json(name))] if name in self._files else []


def files_in(path: Path) -> dict[str, bytes]:
    """Return the files of a bundle by name, read within bounds and never unpacked; raises UsageError."""
    found: dict[str, bytes] = {}
    room = MOST_BYTES
    try:
        with tarfile.open(path, mode="r:gz") as tar:
            for number, member in enumerate(tar):
                if number >= MOST_FILES:
                    raise UsageError(f"--bundle: {path}: more than {MOST_FILES} files in it")
                if member.size > min(room, MOST_FILE_BYTES):
                    raise UsageError(f"--bundle: {path}: {member.name}: {member.size} bytes are too many")
                room -= member.size
                if not member.isfile() or not member.name.startswith(FOLDER):
                    continue
                content = tar.extractfile(member)
                found[member.name.removeprefix(FOLDER)] = (
                    b"" if content is None else content.read(member.size)
                )
    except OSError as error:
        raise UsageError(f"--bundle: {path}: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"--bundle: {path}: not a support bundle: {error}") from error
    return found


def _without_gaps(value: Any) -> Any:
    """Return decoded JSON without the fields that a bundle leaves out: their defaults stand for them."""
    if isinstance(value, dict):
        return {key: _without_gaps(inner) for key, inner in value.items() if inner != LEFT_OUT}
    return [_without_gaps(inner) for inner in value] if isinstance(value, list) else value


def _decode(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _refuse() -> NoReturn:
    raise RequestRefusedError("a support bundle is only looked at: name the manager itself")
