"""What a job waits for that its owner wants to read, in plain words. Pure."""

from collections.abc import Iterator, Mapping

from specon_manager.backends.kube.reporting.note import Note
from specon_manager.core.waiting import Waiting


def words_of_waits(before: Mapping[str, Waiting], after: Mapping[str, Waiting]) -> Iterator[Note]:
    """Yield what jobs wait for that did not wait for something of that kind before.

    Places in queues and amounts change all the time: they are in the words, but are no news by themselves.
    """
    for job, waiting in after.items():
        former = before.get(job)
        if former is not None and former.kind == waiting.kind:
            continue
        queue = f" of queue {waiting.queue}" if waiting.queue else ""
        yield Note(
            replica=job,
            whole=True,
            reason="QuotaExceeded" if waiting.kind == "quota" else "Waiting",
            action="Queue",
            text=f"waits at position {waiting.position}{queue}: {waiting.text}",
            topic=waiting.kind,
        )
