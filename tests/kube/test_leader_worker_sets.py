"""A LeaderWorkerSet of one group with everything real but the cluster: it moves as a whole, or not at all."""

from support.kube.cluster_stage import ClusterStage

JOB = "training/group"
RANKS = [f"{JOB}/worker/{index}" for index in range(4)]
LEAD = RANKS[0]


async def _group(stage: ClusterStage) -> list[str]:
    """Make one that trains, and return the nodes of its ranks."""
    await stage.make("LeaderWorkerSet", "group")
    await stage.trains(*RANKS)
    return [stage.node_of(rank) for rank in RANKS]


async def test_a_group_moves_as_a_whole_from_one_step(stage):
    await stage.manage_and_lead()
    nodes = await _group(stage)
    target = next(node for node in stage.nodes if nodes.count(node) < 4)
    await stage.ask(LEAD, job=JOB, targets=[target])
    await stage.ended(LEAD)
    move = stage.move(LEAD)
    assert (move["state"], move["job"]) == ("Succeeded", JOB), f"{move}\n{stage.tale()}"
    assert {stage.node_of(rank) for rank in RANKS} == {target}
    await stage.tidy()
    assert stage.owner(LEAD)["spec"]["replicas"] == 1
