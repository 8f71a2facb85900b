"""The model of a node's accelerators, and where it is shown."""

import pytest
from rich.console import Console

from specon_manager.cli.run.live_view import render
from specon_manager.core.state import State
from specon_manager.model.cluster import Node
from specon_manager.model.resources import Resources
from specon_manager.views.page import picture


def node(labels, gpu=8.0):
    return Node(name="node-0", capacity=Resources(cpu=64.0, gpu=gpu), labels=labels)


@pytest.mark.parametrize(
    ("labels", "model"),
    [
        ({}, ""),
        ({"kubernetes.io/arch": "amd64"}, ""),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "NVIDIA-A100-SXM4-80GB"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "AMD_Instinct_MI300X_OAM"),
        ({"gpu.intel.com/product": "Max_1550"}, "Max_1550"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "nvidia-l4"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a10g"}, "a10g"),
        ({"karpenter.azure.com/sku-gpu-name": "V100"}, "V100"),
        (
            {"karpenter.k8s.aws/instance-gpu-name": "a100", "nvidia.com/gpu.product": "NVIDIA-A100"},
            "NVIDIA-A100",
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-A100", "specon.io/accelerator": "fast"}, "fast"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100", "specon.io/accelerator": ""}, ""),
    ],
)
def test_the_labels_that_people_have_say_the_model(labels, model):
    """What was read from the device counts before what was configured, and the owner's word before both."""
    assert node(labels).accelerator == model


@pytest.mark.parametrize(("gpu", "shown"), [(8.0, True), (0.0, False)])
def test_nodes_are_shown_with_it(gpu, shown):
    """In the terminal and, where the page lists the GPUs, on the status page."""
    state = State(nodes={"node-0": node({"specon.io/accelerator": "H100"}, gpu)})
    (row,) = picture(state, 0.0, lambda _name, _points: [])["nodes"]
    assert (row["gpu"], row["accelerator"]) == (gpu, "H100")
    console = Console(width=100, height=40, record=True, force_terminal=False)
    console.print(render(state, 0.0, title="t"))
    assert ("of 64 CPU, H100" in console.export_text()) is shown
