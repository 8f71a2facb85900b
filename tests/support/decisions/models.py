"""Clusters of nodes with unlike accelerators, and jobs that ask for some."""

import msgspec

from specon_manager.model import events as ev
from specon_manager.model.cluster import JobSpec
from specon_manager.model.paces import Setup
from specon_manager.model.resources import Resources
from specon_manager.model.settings import Gate
from support.decisions.cluster import SETTINGS, Cluster
from support.decisions.gangs import gang


def cluster_of(*models: str, gpus: float = 2.0, **settings: object) -> Cluster:
    """Return nodes with GPUs of these models, node-0 first; nobody says what those named `` have."""
    chosen = {"policy": "quota-fifo", "defragment": "on", "gate": Gate(horizon=600.0), **settings}
    cluster = Cluster(nodes=0, settings=msgspec.structs.replace(SETTINGS, **chosen))
    for number, model in enumerate(models):
        labels = {"nvidia.com/gpu.product": model} if model else {}
        room = Resources(cpu=8.0, memory=8e9, gpu=gpus)
        cluster.post(ev.NodeObserved(node=f"node-{number}", capacity=room, usage=Resources(), labels=labels))
    return cluster


def job(name: str, workers: int = 1, *, gpu: float = 1.0, kind: str = "vae", **changes: object) -> JobSpec:
    spec = gang(name, workers, ps=0, resizing="none", kind=kind, **changes)
    return msgspec.structs.replace(spec, requests=Resources(cpu=1.0, gpu=gpu))


def on(model: str, *, workers: int = 1, nodes: int = 1) -> Setup:
    return Setup(workers=workers, nodes=nodes, accelerator=model)
