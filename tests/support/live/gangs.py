"""The gang of samples/jobs/gang-job.yaml, for a test."""

from pathlib import Path
from typing import Final

import yaml

from specon_manager.backends.kube.transport.resources import Object, Resource
from support.live.jobs import CLAIM

IMAGE: Final = "SPECON_E2E_SAMPLES_IMAGE"
SERVICES: Final = Resource("", "v1", "services", "Service")
_SAMPLE: Final = Path(__file__).parents[3] / "samples" / "jobs" / "gang-job.yaml"
_SHORT: Final = {"specon.io/interval": "1s", "specon.io/heartbeat": "1s"}


def manifests(image: str) -> tuple[Object, Object]:
    """Return the sample's Service and Job, with this image and small requests, on the volume of the test."""
    _, service, job = yaml.safe_load_all(_SAMPLE.read_text("utf-8"))
    template = job["spec"]["template"]
    template["metadata"]["annotations"] |= _SHORT
    (container,) = template["spec"]["containers"]
    container["image"] = image
    container["resources"] = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    template["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = CLAIM
    return service, job
