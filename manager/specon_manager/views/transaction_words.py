"""Rows of transactions in words: on one line, for the last column of a list, and what they cost."""

from specon_manager.views.names import job_label, printable
from specon_manager.views.transactions import TransactionRow
from specon_manager.views.words import QUEUED
from specon_sidecar.counts import format_count


def sentence(row: TransactionRow, *, named: bool = True) -> str:
    """Return a row on one line; `named`: also whose it is."""
    whose = f" {row.label}:" if named else ""
    text = f"{row.id}{whose} {row.what}, {row.state}"
    if row.attempt > 1 and not row.ended:
        text += ", going back"
    if row.stuck:
        text += f", stuck: {row.stuck}"
    if row.awaited:
        until = f", until {row.deadline} at most" if row.deadline else ""
        text += f", {_waits(row)}{until}"
    text += f": {row.reason}" if row.reason else ""
    facts = [] if row.downtime_seconds is None else [f"{row.downtime_seconds:.1f} s of downtime"]
    facts += [f"{format_count(row.steps_lost, 'step')} lost"] if row.steps_lost else []
    facts += ["no step lost"] if row.ways and row.steps_lost == 0 else []
    facts += [killed_words(row.killed)] if row.killed else []
    sampled = ", sampled" if row.checkpoint_read == "sampled" else ""
    facts += [] if row.checkpoint_step is None else [f"checkpoint of step {row.checkpoint_step}{sampled}"]
    facts += [] if row.beneficiary is None else [f"for {job_label(row.beneficiary)}"]
    text += f" ({', '.join(facts)})" if facts else ""
    return printable(f"{text} [{row.note}]" if row.note else text)


def why(row: TransactionRow) -> str:
    """Return, for the last column of a list, what stands in the way, the reason, and what came of it."""
    parts = [f"stuck: {row.stuck}"] if row.stuck else []
    parts += [_waits(row)] if row.awaited else []
    parts += [row.reason] if row.reason else []
    return printable("; ".join(parts) + (f" [{row.note}]" if row.note else ""))


def _waits(row: TransactionRow) -> str:
    """Return why a request waits, which is a sentence, or the thing that a transaction waits for."""
    return f"waits: {row.awaited}" if row.state == QUEUED else f"waits for {row.awaited}"


def killed_words(count: int) -> str:
    """Return that so many replicas had to be killed."""
    return f"{format_count(count, 'replica')} killed"
