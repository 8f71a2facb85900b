"""What integrations are made of: nothing of theirs reaches the trainer as an exception."""

import ast
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from specon.integrations import TABLE, common, randomness, torch_
from specon.integrations import lightgbm as integration

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


def test_an_error_is_one_line_and_the_end_of_that_integration(capsys):
    """Later calls do nothing; other integrations go on."""
    integration = common.Integration("keras")

    @integration.guarded
    def fail():
        raise ValueError("a\nb")

    assert fail() is None
    assert fail() is None
    assert capsys.readouterr().err == "specon: keras is no longer followed: ValueError: a b\n"
    assert common.Integration("lightning").on


def test_the_table_names_integrations_that_are_there():
    """Each can be read by Python 3.8 and has `patch`."""
    folder = Path(__file__).parents[3] / "trainer/specon/integrations"
    for name in set(TABLE.values()):
        tree = ast.parse((folder / f"{name}.py").read_text(), feature_version=(3, 8))
        assert "patch" in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_random_numbers_go_on_as_they_would_have():
    """The state of Python, NumPy and PyTorch survives a file of JSON."""
    state = json.loads(json.dumps(randomness.capture()))

    def drawn():
        return random.random(), numpy.random.rand(), torch.rand(1).item()

    once = drawn()
    assert drawn() != once
    randomness.restore(state)
    assert drawn() == once


@pytest.mark.parametrize(
    ("content", "can"),
    [
        ({"model": {}, "optimizer": {"state": {}, "param_groups": []}}, True),
        ({"optimizers": [{"state": {}, "param_groups": []}], "step": 3}, True),
        ({"train": {"optimizer": {"state": {}, "param_groups": []}}}, True),
        ({"state": {}, "param_groups": []}, False),
        ({"weight": torch.zeros(1)}, False),
        ([1, 2], False),
    ],
)
def test_only_what_can_be_gone_on_from_is_a_checkpoint(content, can):
    """A dictionary with an optimizer's state among other things; not weights alone, nor that state alone."""
    assert torch_._can_go_on(content) is can


@pytest.mark.parametrize(
    ("kind", "arguments", "step"),
    [("Adam", {}, 42), ("AdamW", {"fused": True}, 42), ("SGD", {"momentum": 0.9}, 2)],
)
def test_steps_count_on_from_those_of_an_older_checkpoint(kind, arguments, step, tmp_path, monkeypatch):
    """The optimizer's state tells the step of a checkpoint that was saved without specon, if it has one."""
    model = torch.nn.Linear(2, 1)
    make = getattr(torch.optim, kind)

    def train(optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            torch_._after_step(optimizer)

    reported, resumed = [], []
    monkeypatch.setattr(torch_, "_LOOP", torch_._Loop())
    monkeypatch.setattr(torch_.specon, "report", lambda step, **_: reported.append(step))
    monkeypatch.setattr(torch_.specon, "resumed", lambda path, step: resumed.append((path, step)))
    first = make(model.parameters(), lr=0.01, **arguments)
    train(first, 40)
    path = tmp_path / "old.pt"
    torch.save({"model": model.state_dict(), "optimizer": first.state_dict()}, path)
    monkeypatch.setattr(torch_, "_LOOP", torch_._Loop())
    reported.clear()
    second = make(model.parameters(), lr=0.01, **arguments)
    second.load_state_dict(torch.load(path)["optimizer"])
    torch_._was_loaded(path)
    train(second, 2)
    assert (reported, torch_._LOOP.step) == ([step], step)
    assert resumed == ([(str(path), 40)] if step > 40 else [])


def test_a_file_that_was_renamed_is_found_and_its_step_is_kept(tmp_path):
    """Until its content changes."""
    part, whole = tmp_path / "newest.part", tmp_path / "newest.pt"
    part.write_text("1")
    inode = part.stat().st_ino
    part.rename(whole)
    assert torch_._now(str(part), inode) == str(whole)
    torch_._note(str(whole), 12)
    step, mark = torch_._index(str(whole))["newest.pt"]
    assert (step, mark) == (12, torch_._mark(str(whole)))
    for step in range(100):
        torch_._note(str(whole), step)
    assert len(torch_._index(str(whole))) == 1


@pytest.mark.parametrize(("step", "training"), [(120, 1), (7, 2), (123456789, 12)])
def test_a_name_tells_which_training_it_is_of(step, training):
    """So a second model of a script is not given the checkpoint of the first."""
    assert common.training_of(f"/a/{common.name_of(step, training)}.txt") == training


def test_a_former_checkpoint_goes_once_two_newer_are_there(tmp_path):
    """Files and folders alike; those of others stay."""
    saved = common.Saved()
    for step in range(4):
        path = tmp_path / f"specon-step-{step}"
        path.mkdir()
        saved.add(str(path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["specon-step-2", "specon-step-3"]


def test_a_script_with_the_line_is_not_given_a_second_callback():
    """Under the hook, too; without it the hook adds one."""
    lightgbm = pytest.importorskip("lightgbm", reason="`make frameworks` installs it and runs this")
    given = []
    module = SimpleNamespace(train=lambda params, train_set, callbacks=None: given.append(callbacks))
    integration.patch(module)
    module.train({}, None, callbacks=[integration.callback()])
    module.train({}, None, callbacks=[lightgbm.log_evaluation()])
    module.train({}, None)
    ours = [[isinstance(each, integration.SpeconCallback) for each in callbacks] for callbacks in given]
    assert ours == [[True], [False, True], [True]]
