"""The manager is in one namespace, `specon`, wherever people are told a command."""

import re

from support.packaging.documents import ROOT, name_of, pages

HELM = re.compile(r"helm (?:install|upgrade|uninstall|rollback) specon\b(?:[^`\n]|\\\n)*")
NAMESPACE = re.compile(r"(?:--namespace|-n)[ =](\S+)")
# A sentence names a command that was shown in whole before; a comment in values.yaml is about values.
IN_A_SENTENCE = {"helm uninstall specon"}


def test_each_command_of_helm_names_the_namespace():
    """Without it helm looks in another one, and finds no release there."""
    found = [(name_of(page), command) for page in pages() for command in HELM.findall(page.read_text())]
    assert len(found) > 8
    for page, command in found:
        if command.strip() not in IN_A_SENTENCE:
            assert NAMESPACE.findall(command) == ["specon"], f"{page}: {command}"


def test_notes_and_runbooks_name_no_other():
    """Deployment, Lease and pods of the manager are looked for where it is."""
    for page in pages():
        for command in re.findall(
            r"kubectl .*(?:deployment/specon|pods,lease|secret specon|lease specon).*", page.read_text()
        ):
            assert NAMESPACE.findall(command)[:1] == ["specon"], f"{name_of(page)}: {command}"
    assert "specon-system" not in "".join(page.read_text() for page in pages())
    assert (ROOT / "charts" / "specon" / "templates" / "NOTES.txt").read_text().count(
        ".Release.Namespace"
    ) > 4
