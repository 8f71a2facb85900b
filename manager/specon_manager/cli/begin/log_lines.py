"""The lines that say how a log is read: its format and metric, or a pattern that was tried on it. Pure."""

from collections.abc import Iterator

from specon_manager.cli.begin.folder import ReadLog
from specon_manager.cli.begin.line import ProposedLine
from specon_sidecar.counts import format_count
from specon_sidecar.event_files.event_reader import FORMAT


def log_lines(log: ReadLog) -> Iterator[ProposedLine]:
    """Yield them: sure where the sidecar recognises the log by itself, else as proposals."""
    if log.format is not None:
        many = f"{format_count(log.samples, 'sample')}" + (
            "" if log.steps else ", none with a step: it can be watched only"
        )
        if log.format != FORMAT:
            yield ProposedLine(key="format", value=log.format, why=f"recognised in {log.path}: {many}")
        if log.metric is not None:
            yield ProposedLine(
                key="metric", value=" ".join(log.metric.split()), why=f"what {log.path} is judged by"
            )
        return
    for one in log.readings[:1]:
        why = f"the likeliest reading of {log.path}: is this what it is to be judged by?"
        yield ProposedLine(key="metric", value=" ".join(one.metric.split()), why=why, sure=False)
    if log.proposal is not None:
        proposal = log.proposal
        ends = f"{proposal.first.value:.6g} to {proposal.last.value:.6g}"
        why = f"finds {format_count(proposal.samples, 'sample')} in {log.path}, {ends}: are these the loss?"
        yield ProposedLine(key="pattern", value=proposal.pattern, why=why, sure=False)
