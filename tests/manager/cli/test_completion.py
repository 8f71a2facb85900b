"""Completion scripts: made from the parser, so that each command and flag is in them."""

import shutil
import subprocess

import pytest

from specon_manager.__main__ import kubectl, main
from specon_manager.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_commands_and_flags(shell, capsys):
    """For each shell, from what the parser declares."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("support-bundle", "dry-run", "kubeconfig", "migrate"):
        assert word in script


def test_bash_completes(tmp_path, capsys):
    """The script in a real shell: a beginning has its commands, a command its flags."""
    if shutil.which("bash") is None:
        pytest.skip("no bash: put it in PATH")
    main(["completion", "bash"])
    script = tmp_path / "specon.bash"
    script.write_text(capsys.readouterr().out)
    for words, expected in (
        (("specon", "supp"), "support-bundle"),
        (("specon", "drain", "--dry"), "--dry-run"),
    ):
        line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}"
        function = "$(complete -p specon | sed -E 's/.*-F ([^ ]+).*/\\1/')"
        asked = f'source {script}; {line}; {function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        ran = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
        assert expected in ran.stdout.split(), (ran.stdout, ran.stderr)


def test_the_plugin_has_the_commands_of_clusters(capsys):
    """`kubectl specon` knows those that a cluster answers, and calls itself so."""
    with pytest.raises(SystemExit):
        kubectl(["--help"])
    said = capsys.readouterr().out
    assert "kubectl specon" in said
    assert "drain" in said
    assert "simulate" not in said
    with pytest.raises(SystemExit):
        kubectl(["local", "jobs.yaml"])
