"""Small clusters written as text: a letter for each replica, a word for each node."""

from collections.abc import Mapping

from specon_manager.core.state import State
from specon_manager.model.cluster import Job, JobSpec, Node, Phase, Replica
from specon_manager.model.progress import Progress
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Settings
from specon_manager.model.snapshot import Snapshot
from specon_manager.model.transactions import Kind, Transaction, TransactionState
from specon_sidecar.classify import Category
from support.decisions.cluster import replica_of

CATEGORIES = {
    "p": Category.PROGRESSING,
    "w": Category.WATCHING,
    "c": Category.CONVERGED,
    "u": Category.UNKNOWN,
    "d": Category.DIVERGING,
    "s": Category.STALLED,
}
NOW = 1000.0


def cluster_of(
    layout: Mapping[str, str],
    *,
    usage: Mapping[str, float] | None = None,
    since: Mapping[str, float] | None = None,
    not_ready: str = "",
    cpus: float = 4.0,
    settings: Settings | None = None,
) -> State:
    """Return a state in which each node runs one replica for each letter.

    Replicas are named `<letter><ordinal>`, counted over the whole cluster; the later ones converged later,
    unless `since` says otherwise by that name.
    """
    usage, since = usage or {}, since or {}
    nodes = {
        name: Node(
            name=name,
            capacity=Resources(cpu=cpus, memory=8e9),
            usage=Resources(cpu=usage.get(name, 0.0)),
            ready=name not in not_ready.split(),
        )
        for name in layout
    }
    jobs, replicas = {}, {}
    for node, letters in layout.items():
        for letter in letters:
            number = len(jobs)
            short = f"{letter}{number}"
            name = replica_of(short)
            spec = JobSpec(name=f"default/{short}", replicas=(name,))
            jobs[spec.name] = Job(spec=spec, order=number, submitted_at=0.0)
            replicas[name] = Replica(
                name=name,
                job=spec.name,
                phase=Phase.RUNNING,
                node=node,
                incarnation="1",
                starts=1,
                progress=Progress(
                    category=CATEGORIES[letter],
                    category_since=since.get(short, float(number)),
                    step=100,
                    falls_on=letter == "c",
                ),
            )
    return State(settings=settings or Settings(policy="specon"), nodes=nodes, jobs=jobs, replicas=replicas)


def snapshot_of(layout: Mapping[str, str], **changes: object) -> Snapshot:
    return cluster_of(layout, **changes).snapshot(NOW)


def move_of(replica: str, source: str, target: str, **fields: object) -> Transaction:
    """Return a move of one replica that was proposed just now."""
    known: dict[str, object] = {
        "id": f"move of {replica}",
        "kind": Kind.MOVE,
        "job": replica.rsplit("/", 2)[0],
        "before": {replica: source},
        "after": {replica: target},
        "policy": "specon",
        "purpose": "migrate",
        "reason": "",
        "state": TransactionState.PROPOSED,
        "proposed_at": NOW,
        "deadline": NOW,
        **fields,
    }
    return Transaction(**known)


def short(name: str) -> str:
    return name.split("/")[1]
