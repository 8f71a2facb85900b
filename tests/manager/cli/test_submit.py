"""`specon submit` where nobody answers."""

from specon_manager.__main__ import main
from specon_manager.cli.act import submit
from specon_manager.runtime.state_directory import Address


def test_a_manager_that_is_gone_is_named_in_words(monkeypatch, tmp_path, capsys, unused_tcp_port):
    """The address, what the network says of it, and what to look at; nothing of Python."""
    address = Address(url=f"http://127.0.0.1:{unused_tcp_port}", pid=1, port=unused_tcp_port)
    monkeypatch.setattr(submit, "address_and_token", lambda _: (address, "token"))
    assert main(["submit", "--state", str(tmp_path), "--", "true"]) == 2
    said = capsys.readouterr().err
    assert f"no manager answers at {address.url}: [Errno 111] Connection refused; is it still" in said
    assert "urlopen" not in said
