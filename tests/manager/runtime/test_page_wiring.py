"""Where managers offer the page: a local one on its own port by a link, a cluster's one on loopback."""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from specon_manager.serving.serve_settings import ListenAddress, add_arguments, read_serve_settings
from specon_manager.usage import UsageError

JOBS = """
policy: fifo
tick: 0.2
jobs:
  - name: short
    command: "{python} -c 'import time; print(\\"step=1 loss=1.0\\", flush=True); time.sleep(60)'"
"""


def read(*arguments):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_serve_settings(parser.parse_args(arguments))


def test_a_managers_page_in_a_cluster_is_for_loopback():
    """Unless told otherwise nobody reaches it but through the API server's port forwarding."""
    assert read().page_listen == ListenAddress("127.0.0.1", 8081)
    assert read("--page-listen", "").page_listen is None


def test_a_page_without_an_address_is_a_mistake():
    """It is named with its flag and its value."""
    with pytest.raises(UsageError, match="--page-listen: 'here' is not HOST:PORT"):
        read("--page-listen", "here")


def ask(url, token):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, None


def _log_with_lines(page, token, seconds=60.0):
    until = time.monotonic() + seconds
    while True:
        status, tail = ask(page + "log?replica=default/short/worker/0", token)
        if status == 200 and tail["lines"]:
            return tail
        assert time.monotonic() < until, (status, tail)
        time.sleep(0.2)


@pytest.mark.processes
def test_the_link_of_a_local_run_opens_its_page_and_nothing_else(tmp_path):
    """`--web` prints it; its token sees the page and ends of logs, neither the whole state nor more."""
    (tmp_path / "jobs.yaml").write_text(JOBS)
    command = [sys.executable, "-m", "specon_manager", "local", "jobs.yaml", "--nodes", "1", "--web"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as run:
        try:
            assert run.stdout is not None
            line = run.stdout.readline()
            assert line.startswith("status page: http://127.0.0.1:")
            page, _, token = line.split()[-1].partition("#token=")
            status, picture = ask(page + "view", token)
            assert (status, picture["policy"]) == (200, "fifo")
            assert ask(page.replace("/page/", "/v1/state"), token)[0] == 403
            owner = (tmp_path / "jobs.specon" / "token").read_text().strip()
            assert owner != token
            assert ask(page + "view", owner)[0] == 200
            tail = _log_with_lines(page, token)
            assert tail["lines"] == ["step=1 loss=1.0"]
            assert tail["path"].startswith(str(tmp_path))
        finally:
            run.terminate()
            run.communicate(timeout=60)
