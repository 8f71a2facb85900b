"""Manager and sidecar run from what the steps of their Dockerfiles make; packages are those of the locks."""

import subprocess
import sys

import pytest

from specon_manager import __version__
from support.packaging import dockerfile, root_file_system
from support.packaging.dockerfile import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the images have Python 3.11: run the tests with it"
    ),
]


class Container:
    """What `docker run` would start, without a container engine."""

    def __init__(self, name, folder):
        self.image = dockerfile.read(ROOT / name / "Dockerfile")
        self.folder = root_file_system.build(ROOT / name / "Dockerfile", folder)

    def run(self, *command):
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            env=dockerfile.environment(self.image, self.folder),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self, *arguments):
        return self.run(*self.image.entrypoint, *arguments)

    def installed(self):
        program = (
            "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()))"
        )
        return {one.lower().replace("_", "-") for one in self.run("python", "-c", program).stdout.split()}


def pinned(name):
    return {f"{package}=={version}" for package, version in dockerfile.locked(f"locks/{name}.txt").items()}


def test_the_sidecar_runs_from_its_root_file_system(tmp_path):
    """Its help, its refusal, a log to its end and the copy of the helper, with the packages of its lock."""
    sidecar = Container("sidecar", tmp_path / "root")
    assert sidecar.installed() == pinned("sidecar")
    told = sidecar.start("--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "--trainer-pid" in told.stdout
    assert sidecar.start("--alpha", "2").returncode == 2
    (tmp_path / "log").write_text("".join(f"step={n} loss={1 / n:.6f}\n" for n in range(1, 500)))
    read = sidecar.start("--log", str(tmp_path / "log"), "--once")
    assert (read.returncode, read.stderr) == (0, "")
    assert "499 lines, 499 samples" in read.stdout
    copied = sidecar.start("copy-helper", str(tmp_path / "python"))
    assert (copied.returncode, copied.stderr) == (0, "")
    assert (tmp_path / "python" / "specon" / "__init__.py").exists()


def test_the_manager_runs_from_its_root_file_system(tmp_path):
    """Its version, also as `kubectl exec` asks for it, help and a table, with the packages of its lock."""
    manager = Container("manager", tmp_path / "root")
    assert manager.installed() == pinned("manager")
    for told in (manager.start("--version"), manager.run("specon", "--version")):
        assert (told.returncode, told.stdout, told.stderr) == (0, f"specon {__version__}\n", "")
    for arguments in (["--help"], ["serve", "--help"], ["policies"]):
        told = manager.start(*arguments)
        assert (told.returncode, told.stderr) == (0, ""), arguments
        assert told.stdout
    # The one module that imports the client library of Kubernetes.
    transport = "import specon_manager.backends.kube.transport.access"
    assert manager.run("python", "-c", transport).returncode == 0
