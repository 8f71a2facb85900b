"""A job of several pods that train as one, neither held nor elastic: it runs, and moves as a whole."""

from specon_manager.model import events as ev
from specon_manager.model.transactions import TransactionState
from support.kube.changing import elastic

JOB = "default/bert"
STATES = tuple(TransactionState)[:6]
"""Those of a move in flight, in their order."""


def coupled(workers=4, **changed):
    """Return a job whose workers save a part each."""
    given = {
        "held": False,
        "resizing": "none",
        "queue": "",
        "present": None,
        "min_workers": None,
        "savers": "all",
        "coupling": "its annotation specon.io/replicas says coupled",
        **changed,
    }
    return elastic(workers=workers, most=workers, ps=0, **given)


def trains(manager, **changed):
    """Let such a job run, two workers on a node."""
    manager.observe(coupled(**changed))
    names = manager.state.jobs[JOB].spec.replicas
    for index, name in enumerate(names):
        manager.starts(name, f"node-{index // 2}")
    for name in names:
        manager.reports(name)
    manager.now += 100
    manager.ticks()
    return manager


def goes_on(manager, *, back=False):
    """Let what is in flight come to its next state; `back`: turn it back where it starts."""
    move = manager.flying()
    acts = {
        TransactionState.PROPOSED: manager.holds_room,
        TransactionState.RESERVED: manager.delivered,
        TransactionState.CHECKPOINTING: manager.acknowledges,
        TransactionState.LEAVING: lambda move: _leave(manager, move),
        TransactionState.COMING: lambda move: _come(manager, move),
        TransactionState.VERIFYING: lambda _: _train(manager),
    }
    if back and move.state is TransactionState.COMING and move.attempt == 1:
        manager.refuses(move, "there is no node for it")
    else:
        acts[move.state](move)
    return manager.flying()


def _leave(manager, move):
    for name in move.concerned:
        if name in manager.pods:
            manager.ends(name)
        else:
            manager.post(ev.ReplicaGone(replica=name, incarnation=None, evicted=True, reason="never seen"))


def _come(manager, move):
    for name, node in sorted(move.wanted.items()):
        if name not in manager.pods:
            manager.starts(name, node)


def _train(manager):
    for step in (101, 102):
        manager.now += 1
        for name in sorted(manager.pods):
            manager.reports(name, step)
