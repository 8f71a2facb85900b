"""What Python runs at its start in a trainer that is instrumented: any Python, and nobody is disturbed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TRAINER = Path(__file__).parents[2] / "trainer"
PYTHONS = [
    sys.executable,
    *(
        found
        for name in ("python2.7", "python3.6", "python3.8", "python3.13")
        if (found := shutil.which(name))
    ),
]


def run(python, program, *behind, **environment):
    given = {name: text for name, text in os.environ.items() if not name.startswith("SPECON_")}
    path = os.pathsep.join([str(TRAINER), *map(str, behind)])
    given |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    return subprocess.run(
        [python, "-c", program], env=given, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
@pytest.mark.parametrize("socket", [{}, {"SPECON_SOCKET": "/nowhere", "SPECON_TOKEN_FILE": "/nowhere"}])
def test_users_own_is_run_once_and_nothing_is_said(tmp_path, python, socket):
    """With a sidecar or without, in a Python that the helper knows or not: theirs is what is imported."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.stderr.write('mine once')\nsys.path.append('/x')"
    )
    program = (
        "import sys, sitecustomize as it; print(it.__file__); print('/x' in sys.path); print(sys.path[1])"
    )
    done = run(python, program, tmp_path, **socket)
    if "No module named" in done.stderr or "command not found" in done.stderr:
        pytest.skip(f"the {Path(python).name} in PATH starts no Python: put one there that does")
    assert done.stderr == "mine once"
    assert done.stdout.split() == [str(tmp_path / "sitecustomize.py"), "True", str(TRAINER)]


@pytest.mark.parametrize(
    "environment",
    [{}, {"SPECON_SOCKET": "/nowhere", "SPECON_TOKEN_FILE": "/nowhere", "SPECON_INSTRUMENT": "off"}],
)
def test_processes_without_a_sidecar_are_left_alone(environment):
    """Nothing of the helper is imported where nobody listens, or where it is switched off."""
    done = run(
        sys.executable, "import sys; print('specon' in sys.modules, len(sys.meta_path))", **environment
    )
    alone = run(sys.executable, "import sys; print('specon' in sys.modules, len(sys.meta_path))")
    assert done.stdout == alone.stdout
    assert done.stdout.startswith("False")


def test_a_framework_is_patched_when_it_is_imported_and_left_as_it_is_where_that_fails(tmp_path):
    """After its import, once; one that cannot be patched is a line on standard error, and nothing else."""
    for name in ("good", "bad"):
        (tmp_path / f"{name}.py").write_text("value = 1\n")
    program = (
        "from specon import instrument\n"
        "calls = []\n"
        "instrument.register('good', lambda module: calls.append(module.value))\n"
        "instrument.register('bad', lambda module: 1 / 0)\n"
        "import good, bad, importlib\n"
        "importlib.reload(good)\n"
        "instrument.register('good', lambda module: calls.append('at once'))\n"
        "print(calls, bad.value, 'exec_module' in good.__loader__.__dict__)"
    )
    done = run(sys.executable, program, tmp_path)
    assert done.stdout.strip() == "[1, 'at once'] 1 False"
    assert done.stderr.count("\n") == 1
    assert "bad is left as it is: ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("error", ["RuntimeError: theirs", "ImportError"])
def test_error_of_the_users_own_is_theirs(tmp_path, error):
    """Python says what it says without us, and starts; also of an error that has no words."""
    name, _, words = error.partition(": ")
    (tmp_path / "sitecustomize.py").write_text(f"raise {name}({words!r})\n" if words else f"raise {name}\n")
    done = run(sys.executable, "print('started')", tmp_path, SPECON_SOCKET="/nowhere")
    assert done.stdout == "started\n"
    assert error in done.stderr.splitlines()[-1]
