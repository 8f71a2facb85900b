"""What a script gives by position is treated as what it gives by name: None names no checkpoint."""

import importlib
from types import ModuleType, SimpleNamespace

import pytest

import specon
from specon.integrations import hugging_face, keras, lightgbm, lightning, xgboost


@pytest.fixture
def followed(monkeypatch):
    """Follow an integration; the caller begins its first training and passes what it continues from."""

    def follow(module, path):
        monkeypatch.setattr(module.IT, "on", True)
        monkeypatch.setattr(module.IT, "trainings", 0)
        monkeypatch.setattr(specon, "resume_path", lambda: None if path is None else str(path))

    yield follow
    for module in (hugging_face, keras, lightgbm, lightning, xgboost):
        assert module.IT.on, module


def trained(followed, monkeypatch, tmp_path, *arguments, **named):
    """Return what a Trainer of Hugging Face's kind is given."""
    path = tmp_path / "checkpoint-30"
    path.mkdir()
    (path / "trainer_state.json").write_text("{}")
    followed(hugging_face, path)
    known = SimpleNamespace(resumed_from=None)
    monkeypatch.setattr(hugging_face, "_callback", lambda trainer: known)

    class Trainer:
        def __init__(self):
            self.args = SimpleNamespace(output_dir=str(tmp_path), resume_from_checkpoint=None)

        def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **kwargs):
            return resume_from_checkpoint, trial, ignore_keys_for_eval, kwargs

        def _save_checkpoint(self):
            pass

    hugging_face.patch(SimpleNamespace(Trainer=Trainer))
    return Trainer().train(*arguments, **named), str(path), known.resumed_from


@pytest.mark.parametrize("none", [None, False])
def test_hugging_face_goes_on_where_none_or_false_is_given(followed, monkeypatch, tmp_path, none):
    """By position as by name; what else is given arrives."""
    given, path, told = trained(followed, monkeypatch, tmp_path, none, None, ["a"], old=1)
    assert given == (path, None, ["a"], {"old": 1})
    assert told == path


@pytest.mark.parametrize("own", ["/elsewhere", True])
def test_hugging_face_is_left_what_the_script_names(followed, monkeypatch, tmp_path, own):
    """A path, and True."""
    given, _, told = trained(followed, monkeypatch, tmp_path, own)
    assert given == (own, None, None, {})
    assert told is None


def fitted(followed, monkeypatch, tmp_path, *arguments, **named):
    """Return what a Trainer of Lightning's kind is given."""
    path = tmp_path / "specon-epoch=0-step=12.ckpt"
    followed(lightning, path)
    kind = type("Callback", (), {"resumed_from": None})
    monkeypatch.setattr(lightning, "_class", lambda package: kind)
    monkeypatch.setattr(lightning, "callback", lambda package: kind())

    class Trainer:
        num_nodes = 1

        def __init__(self):
            self.callbacks = []

        def fit(self, model, train_dataloaders=None, val_dataloaders=None, datamodule=None, ckpt_path=None):
            return model, train_dataloaders, ckpt_path

    module = ModuleType("lightning.pytorch.trainer.trainer")
    module.Trainer = Trainer
    lightning.patch(module)
    return Trainer().fit(*arguments, **named), str(path)


@pytest.mark.parametrize("arguments", [("m", "d"), ("m", "d", None, None, None)])
def test_lightning_goes_on_where_none_is_given(followed, monkeypatch, tmp_path, arguments):
    """Left out, or by position."""
    given, path = fitted(followed, monkeypatch, tmp_path, *arguments)
    assert given == ("m", "d", path)


def test_lightning_is_left_what_the_script_names(followed, monkeypatch, tmp_path):
    """By position, too."""
    given, _ = fitted(followed, monkeypatch, tmp_path, "m", "d", None, None, "mine.ckpt")
    assert given == ("m", "d", "mine.ckpt")


@pytest.mark.parametrize(("initial", "elsewhere"), [(0, False), (3, True)])
def test_keras_reads_what_is_given_by_position(followed, monkeypatch, initial, elsewhere):
    """The callbacks, to which ours is added, and the first epoch."""
    followed(keras, None)
    kind = type("Callback", (), {})
    monkeypatch.setattr(keras, "_class", lambda: kind)
    monkeypatch.setattr(keras, "callback", kind)

    class KerasTrainer:
        def fit(self, x, y=None, callbacks=None, initial_epoch=0):
            return x, y, callbacks, initial_epoch

    keras.patch(SimpleNamespace(KerasTrainer=KerasTrainer))
    x, y, (theirs, ours), first = KerasTrainer().fit(1, 2, ["theirs"], initial)
    assert (x, y, theirs, first, ours.begins_elsewhere) == (1, 2, "theirs", initial, elsewhere)


@pytest.mark.parametrize(("own", "used"), [(None, "ours"), ("mine", "mine")])
def test_boosted_trees_go_on_where_none_is_given(followed, monkeypatch, own, used):
    """LightGBM takes all by position; XGBoost warns of that, and takes them."""
    booster = SimpleNamespace(num_boosted_rounds=lambda: 30, current_iteration=lambda: 30)
    framework = SimpleNamespace(Booster=lambda model_file: booster)
    monkeypatch.setattr(importlib, "import_module", lambda name: framework)
    path = "/a/specon-step-00000030"
    rounds = 70 if own is None else 100
    expected = path if used == "ours" else used

    def train(params, train_set, num_boost_round=100, init_model=None, callbacks=None):
        return train_set, num_boost_round, init_model

    followed(lightgbm, path)
    lightgbm.patch(module := SimpleNamespace(train=train))
    assert module.train({}, "d", 100, own) == ("d", rounds, expected)

    def strict(params, dtrain, num_boost_round=10, *, evals=None, xgb_model=None, callbacks=None):
        return dtrain, num_boost_round, evals, xgb_model

    def warning(*arguments, **named):
        names = ("params", "dtrain", "num_boost_round", "evals", "xgb_model", "callbacks")
        return strict(**dict(named, **dict(zip(names, arguments, strict=False))))

    warning.__wrapped__ = strict
    monkeypatch.setattr(xgboost, "_class", lambda: SimpleNamespace)
    monkeypatch.setattr(xgboost, "callback", SimpleNamespace)
    followed(xgboost, path)
    xgboost.patch(module := SimpleNamespace(train=warning))
    assert module.train({}, "d", 100, ["v"], own) == ("d", rounds, ["v"], expected)
