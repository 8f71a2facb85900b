"""The helper in a trainer's container: who brings it, how Python finds it, what is refused."""

import copy

import kubernetes_validate
import msgspec
import pytest

from specon_manager.backends.kube.admission.injection import InjectionSettings, inject
from specon_manager.backends.kube.admission.instrumentation import SAFE_TO_EVICT
from specon_manager.backends.kube.admission.trainer_container import PodRefusedError
from specon_manager.backends.kube.objects.annotation_mistakes import AnnotationError
from specon_manager.backends.kube.objects.annotation_reader import read_options
from support.kube.pods import CLAIM, MOUNT, annotated, job_pod, kubeflow_pod, pod, trainer

SETTINGS = InjectionSettings(image="registry.example/specon-sidecar:0.2.0", manager="https://reports:443")
BY_IMAGE = msgspec.structs.replace(SETTINGS, helper_volume="image")


def instrumented(manifest=None, *, settings=SETTINGS, **options):
    given = pod() if manifest is None else manifest
    given["metadata"]["annotations"] |= annotated(instrument="true", **options)
    return inject(given, "ml", read_options(given["metadata"]["annotations"]), settings, {})


def container(done, name):
    spec = done.pod["spec"]
    return next(one for one in spec["initContainers"] + spec["containers"] if one["name"] == name)


def variables(done, name="trainer"):
    return {one["name"]: one.get("value") for one in container(done, name)["env"]}


def test_an_init_container_copies_the_helper_before_the_trainer_starts():
    """As restricted as the sidecar, without a shell, with resources; the volume is small and of memory."""
    done = instrumented()
    assert [one["name"] for one in done.pod["spec"]["initContainers"]] == ["specon-helper", "specon-sidecar"]
    helper, sidecar = container(done, "specon-helper"), container(done, "specon-sidecar")
    assert helper == {
        "name": "specon-helper",
        "image": SETTINGS.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["copy-helper", "/run/specon-trainer/python"],
        "resources": sidecar["resources"],
        "securityContext": sidecar["securityContext"],
        "volumeMounts": [{"name": "specon-trainer", "mountPath": "/run/specon-trainer"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    volume = {"name": "specon-trainer", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}
    assert volume in done.pod["spec"]["volumes"]


def test_the_trainer_finds_the_helper_and_cannot_change_it():
    """Mounted read-only; the folder for Python, the socket and the token by variables."""
    done = instrumented(checkpoint_path="/data/checkpoints")
    mount = {"name": "specon-trainer", "mountPath": "/run/specon", "readOnly": True}
    assert container(done, "trainer")["volumeMounts"][-1] == mount
    assert variables(done) == {
        "SPECON_TRAINER": "1",
        "SPECON_SOCKET": "/run/specon/hook/s",
        "SPECON_TOKEN_FILE": "/run/specon/hook/token",
        "SPECON_CHECKPOINTS": "/data/checkpoints",
        "PYTHONPATH": "/run/specon/python",
    }


def test_the_sidecar_listens_and_asks_by_the_hook():
    """Where its own container has the volume; neither log nor checkpoint folder has to be declared."""
    sidecar = container(instrumented(), "specon-sidecar")
    assert "--hook=/run/specon-trainer/hook/s" in sidecar["args"]
    assert "--checkpoint=hook" in sidecar["args"]
    assert not [one for one in sidecar["args"] if one.startswith(("--log", "--checkpoint-path"))]
    assert sidecar["volumeMounts"][:2] == [
        {**MOUNT, "readOnly": True},
        {"name": "specon-trainer", "mountPath": "/run/specon-trainer"},
    ]


def test_what_is_declared_is_said_as_without_a_helper():
    """A log, a folder and another way to be asked go beside it."""
    done = instrumented(log_path="/data/l", checkpoint_path="/data/c", checkpoint="periodic")
    arguments = container(done, "specon-sidecar")["args"]
    assert {"--log=/data/l", "--checkpoint-path=/data/c", "--checkpoint=periodic"} <= set(arguments)


def test_the_sidecar_sees_what_a_move_does_not_lose():
    """Wherever it saves; no secrets, nothing that goes with the pod, nothing that covers its own files."""
    volumes = [
        CLAIM,
        {"name": "share", "nfs": {"server": "nfs", "path": "/x"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "key", "secret": {"secretName": "key"}},
        {"name": "host", "hostPath": {"path": "/srv"}},
    ]
    places = {"data": "/data", "share": "/share", "scratch": "/scratch", "key": "/key", "host": "/host"}
    mounts = [{"name": name, "mountPath": path} for name, path in places.items()]
    mounts += [{"name": "share", "mountPath": "/opt"}, {"name": "share", "mountPath": "/usr/local/lib/x"}]
    spec = {"containers": [trainer(volumeMounts=mounts)], "volumes": volumes}
    done = instrumented(pod(spec=spec))
    seen = [one["mountPath"] for one in container(done, "specon-sidecar")["volumeMounts"]]
    assert seen[:3] == ["/data", "/share", "/run/specon-trainer"]
    assert all(one.get("readOnly") for one in container(done, "specon-sidecar")["volumeMounts"][:2])
    assert container(done, "specon-sidecar")["args"][-2:] == ["--volume=/data", "--volume=/share"]


def test_a_checkpoint_lies_where_a_move_finds_it():
    """Not beside a log that goes with the pod; what is declared is its owner's word; else it is nowhere."""
    volumes = [{"name": "scratch", "emptyDir": {}}]
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    manifest = pod(spec={"containers": [trainer(volumeMounts=mounts)], "volumes": volumes})
    for declared, volume in (
        ({"log_path": "/scratch/l"}, "none"),
        ({"checkpoint_path": "/scratch/c"}, "/scratch"),
    ):
        arguments = container(instrumented(copy.deepcopy(manifest), **declared), "specon-sidecar")["args"]
        assert [one for one in arguments if one.startswith("--volume")] == [f"--volume={volume}"]
    plain = inject(pod(), "ml", read_options(pod()["metadata"]["annotations"]), SETTINGS, {})
    assert not [one for one in container(plain, "specon-sidecar")["args"] if one.startswith("--volume")]


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        ("/app:/lib", "/run/specon/python:/app:/lib"),
        ("/app/$(RUN)", "/run/specon/python:/app/$(RUN)"),
        ("", "/run/specon/python"),
        (":/app", "/run/specon/python:/app"),
        ("/otel:/run/specon/python:/app", "/run/specon/python:/otel:/app"),
    ],
)
def test_the_users_search_path_is_kept_behind(given, becomes):
    """In its place among the variables, which may name those before it; ours is first again if moved."""
    environment = [
        {"name": "RUN", "value": "7"},
        {"name": "PYTHONPATH", "value": given},
        {"name": "LATER", "value": "$(PYTHONPATH)"},
    ]
    done = instrumented(pod(spec={"containers": [trainer(env=environment)]}))
    names = [one["name"] for one in container(done, "trainer")["env"]]
    assert names[:3] == ["RUN", "PYTHONPATH", "LATER"]
    assert variables(done)["PYTHONPATH"] == becomes


def test_of_two_search_paths_the_last_counts():
    """As the kubelet takes them."""
    environment = [{"name": "PYTHONPATH", "value": "/a"}, {"name": "PYTHONPATH", "value": "/b"}]
    done = instrumented(pod(spec={"containers": [trainer(env=environment)]}))
    assert variables(done)["PYTHONPATH"] == "/run/specon/python:/b"


@pytest.mark.parametrize(
    ("listed", "becomes"),
    [
        (None, "specon-trainer"),
        ("scratch,cache", "scratch,cache,specon-trainer"),
        ("specon-trainer", "specon-trainer"),
    ],
)
def test_an_autoscaler_is_told_that_nothing_is_lost(listed, becomes):
    """Beside what the owner listed."""
    given = pod()
    if listed is not None:
        given["metadata"]["annotations"][SAFE_TO_EVICT] = listed
    assert instrumented(given).pod["metadata"]["annotations"][SAFE_TO_EVICT] == becomes


def test_an_image_volume_needs_no_init_container():
    """The whole image beside the socket's volume, neither within the other; both read-only in the trainer."""
    done = instrumented(settings=BY_IMAGE)
    assert [one["name"] for one in done.pod["spec"]["initContainers"]] == ["specon-sidecar"]
    source = {"reference": SETTINGS.image, "pullPolicy": "IfNotPresent"}
    assert {"name": "specon-helper", "image": source} in done.pod["spec"]["volumes"]
    assert container(done, "trainer")["volumeMounts"][-2:] == [
        {"name": "specon-trainer", "mountPath": "/run/specon/hook", "readOnly": True},
        {"name": "specon-helper", "mountPath": "/run/specon/image", "readOnly": True},
    ]
    assert variables(done)["PYTHONPATH"] == "/run/specon/image/opt/specon/share/specon/trainer"
    socket = {"name": "specon-trainer", "mountPath": "/run/specon-trainer/hook"}
    assert socket in container(done, "specon-sidecar")["volumeMounts"]


@pytest.mark.parametrize("settings", [SETTINGS, BY_IMAGE], ids=["emptyDir", "image"])
def test_asked_again_nothing_changes(settings):
    """A second call, or a copy of the manifest."""
    once = instrumented(kubeflow_pod(), settings=settings)
    again = instrumented(copy.deepcopy(once.pod), settings=settings)
    assert again.pod == once.pod


def test_other_containers_are_left_alone():
    """The helper is the trainer's; host network and a shared process namespace do not hinder it."""
    spec = {
        "containers": [trainer("proxy", env=[{"name": "PYTHONPATH", "value": "/p"}]), trainer("train")],
        "hostNetwork": True,
        "shareProcessNamespace": True,
    }
    done = instrumented(pod(spec=spec), container="train")
    assert container(done, "proxy") == spec["containers"][0]
    assert variables(done, "train")["SPECON_SOCKET"] == "/run/specon/hook/s"


def test_a_guaranteed_pod_stays_guaranteed():
    """The init container counts as well."""
    equal = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    done = instrumented(pod(spec={"containers": [trainer(resources=equal)]}))
    for name in ("specon-helper", "specon-sidecar"):
        resources = container(done, name)["resources"]
        assert resources["requests"] == resources["limits"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {
                "containers": [
                    trainer(env=[{"name": "PYTHONPATH", "valueFrom": {"configMapKeyRef": {"key": "p"}}}])
                ]
            },
            (
                "specon.io/instrument: PYTHONPATH of container 'trainer' comes from elsewhere (valueFrom), "
                "and the helper has to come before it: write its value into the pod"
            ),
        ),
        (
            {"volumes": [CLAIM, {"name": "specon-trainer", "persistentVolumeClaim": {"claimName": "x"}}]},
            "specon.io/instrument: the pod has a volume 'specon-trainer' of its own: name it otherwise",
        ),
        (
            {"containers": [trainer(volumeMounts=[{"name": "data", "mountPath": "/run/specon/"}])]},
            (
                "specon.io/instrument: container 'trainer' has a volume at /run/specon, where the helper is: "
                "mount it elsewhere"
            ),
        ),
        ({"os": {"name": "windows"}}, "the sidecar runs on Linux only, and the pod asks for windows"),
    ],
    ids=["valueFrom", "volume", "mount", "windows"],
)
def test_where_the_helper_could_not_be_it_is_refused(spec, said):
    """With what to change."""
    with pytest.raises(PodRefusedError) as caught:
        instrumented(pod(spec=spec))
    assert str(caught.value) == said


def test_a_search_path_that_nobody_can_read_is_warned_of():
    """What `envFrom` brings is not in the pod, and what `env` says wins."""
    many = trainer(envFrom=[{"configMapRef": {"name": "settings"}}])
    assert "by envFrom is lost: name it in env" in instrumented(pod(spec={"containers": [many]})).warnings[0]
    assert instrumented().warnings == ()


def test_asking_by_the_hook_needs_the_helper():
    """Nobody would listen."""
    with pytest.raises(AnnotationError, match=r"hook is for trainers with specon.io/instrument: true"):
        read_options(annotated(checkpoint="hook"))


def test_a_volume_that_would_cover_the_sidecar_is_refused():
    """It could not start."""
    spec = {"containers": [trainer(volumeMounts=[{"name": "data", "mountPath": "/opt"}])]}
    given = pod(annotations=annotated(log_path="/opt/train.log", checkpoint="none"), spec=spec)
    with pytest.raises(
        PodRefusedError, match=r"log-path: the volume at /opt would cover the sidecar's own files"
    ):
        inject(given, "ml", read_options(given["metadata"]["annotations"]), SETTINGS, {})


@pytest.mark.parametrize(
    ("version", "settings"), [("1.30", SETTINGS), ("1.37", SETTINGS), ("1.35", BY_IMAGE), ("1.37", BY_IMAGE)]
)
def test_the_pod_is_what_the_server_takes(version, settings):
    """Strictly, and for whatever made it."""
    for given in (pod(), job_pod("resnet", 2), kubeflow_pod()):
        done = instrumented(given, settings=settings)
        kubernetes_validate.validate(done.pod, version, strict=True)
