"""Each image's command starts with exactly the files and distributions that its Dockerfile puts into it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.packaging import dockerfile
from support.packaging.dockerfile import ROOT

FILES = ("sidecar/Dockerfile", "manager/Dockerfile", "samples/Dockerfile")
SERVES = (ROOT / "manager/specon_manager/cli/serve.py").exists()
IMPORTABLE = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n)))"


@pytest.fixture(params=FILES)
def image(request):
    return dockerfile.read(ROOT / request.param)


@pytest.fixture
def laid_out(request, tmp_path):
    image = dockerfile.read(ROOT / request.param)
    return image, dockerfile.lay_out(image, tmp_path / "image")


def start(laid_out, *arguments, entrypoint=None):
    """Run the image's command as in a container: only its own variables, in its working directory."""
    image, folder = laid_out
    command = image.entrypoint if entrypoint is None else entrypoint
    workdir = image.workdir.replace(image.prefix, str(folder))
    return subprocess.run(
        [folder / "bin" / command[0], *command[1:], *arguments],
        env=dockerfile.environment(image, folder),
        cwd=workdir,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_base_is_pinned_to_a_whole_version(image):
    """Neither `latest` nor a series: three numbers and the distribution, the same in all images."""
    assert re.fullmatch(r"python:3\.11\.\d+-slim-[a-z]+", image.base)
    assert len({dockerfile.read(ROOT / file).base for file in FILES}) == 1


def test_images_run_without_root_and_write_no_bytecode(image):
    """As a user that owns nothing; only what the first stage installed is carried over."""
    assert image.user == "65532:65532"
    assert image.environment["PYTHONDONTWRITEBYTECODE"] == "1"
    assert image.carried == [(image.prefix, image.prefix)]


def test_what_is_copied_is_in_the_context(image):
    """.dockerignore lets each source through, and no compiled file or other part of a checkout."""
    for source, _ in image.copies:
        assert (ROOT / source).exists()
        assert dockerfile.in_context(source), source
        assert not dockerfile.in_context(f"{source}/__pycache__"), source
    for path in (".git", ".venv", "tests", "docs", "samples/jobs", "sidecar/README.md", "shared"):
        assert not dockerfile.in_context(path), path


@pytest.mark.parametrize("laid_out", FILES[:1], indirect=True)
def test_the_sidecar_starts_with_what_its_image_has(laid_out):
    """Its help, and its refusal of wrong settings; nothing of the manager or of any extra is in the image."""
    assert "--trainer-pid" in start(laid_out, "--help").stdout
    refused = start(laid_out, "--alpha", "2")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--alpha: '2'" in refused.stderr
    ours = ["specon_manager", "specon_lab"]
    others = ["yaml", "psutil", "rich", "torch", "tensorboard", "pip", "pytest", "numpy"]
    answer = start(laid_out, "-c", IMPORTABLE, *ours, *others, "aiohttp", "msgspec", entrypoint=["python"])
    assert answer.stdout.split() == ["aiohttp", "msgspec"]


@pytest.mark.parametrize("laid_out", FILES[:1], indirect=True)
def test_the_sidecar_reads_a_log_with_what_its_image_has(laid_out, tmp_path):
    """From the first line to the verdict."""
    (tmp_path / "log").write_text("".join(f"step={n} loss={1 / n:.6f}\n" for n in range(1, 500)))
    answer = start(laid_out, "--log", str(tmp_path / "log"), "--once")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "499 lines, 499 samples" in answer.stdout


@pytest.mark.parametrize("laid_out", FILES[:1], indirect=True)
def test_the_sidecars_image_copies_the_helper(laid_out, tmp_path):
    """All of it and no more, and an interpreter of a trainer loads it from the copy."""
    answer = start(laid_out, "copy-helper", str(tmp_path / "python"))
    assert (answer.returncode, answer.stderr) == (0, "")
    files = {str(one.relative_to(ROOT / "trainer")) for one in (ROOT / "trainer").rglob("*.py")}
    assert {str(one.relative_to(tmp_path / "python")) for one in (tmp_path / "python").rglob("*.py")} == files
    program = "import specon, sitecustomize; print(specon.__file__, specon.checkpoint_requested())"
    environment = {"PYTHONPATH": str(tmp_path / "python")}
    trainer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=False
    )
    assert trainer.stdout.decode() == f"{tmp_path}/python/specon/__init__.py False\n", trainer.stderr


@pytest.mark.parametrize("laid_out", FILES[1:2], indirect=True)
def test_the_manager_starts_with_what_its_image_has(laid_out):
    """Its help and that of commands; nothing of the simulator's pictures or of the tests is there."""
    commands = ["--help", "explain --help", *(["serve --help"] if SERVES else [])]
    for arguments in commands:
        answer = start(laid_out, *arguments.split())
        assert (answer.returncode, answer.stderr) == (0, ""), arguments
        assert "usage: " in answer.stdout
    others = ["torch", "matplotlib", "tensorboard", "sklearn", "pip", "pytest", "scipy"]
    there = ["specon_sidecar", "specon_lab"]
    answer = start(laid_out, "-c", IMPORTABLE, *others, *there, entrypoint=["python"])
    assert answer.stdout.split() == there


@pytest.mark.parametrize("laid_out", FILES[1:2], indirect=True)
def test_the_managers_image_says_where_the_simulator_is(laid_out):
    """It decides without the simulator; a request for a simulation says how to get one."""
    answer = start(laid_out, "simulate", "--workload", "specon-mixed-20", "--policy", "progress")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert "pip install 'specon[simulate]'" in answer.stderr


@pytest.mark.processes
@pytest.mark.parametrize("laid_out", FILES[2:], indirect=True)
def test_a_sample_trains_with_what_its_image_has(laid_out, tmp_path):
    """Three steps, with a log and a checkpoint."""
    arguments = "--steps 3 --batch-size 8 --hidden 4 --log {0}/log --checkpoint-dir {0}/checkpoints"
    answer = start(laid_out, "gru.py", *arguments.format(tmp_path).split())
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "finished step=3" in (tmp_path / "log").read_text()
    assert [path.name for path in Path(tmp_path / "checkpoints").iterdir()] == ["step-00000003.pt"]
