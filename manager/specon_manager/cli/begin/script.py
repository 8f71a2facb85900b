"""What a training script says about itself: its imports and its texts, parsed and never executed. Pure."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

LONGEST: Final = 1 << 20
"""Bytes of a script that is parsed."""


class Framework(NamedTuple):
    """A framework, and whether the trainer's helper saves and resumes for it."""

    title: str
    saves_on_request: bool = False


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "transformers": Framework("Hugging Face Trainer", saves_on_request=True),
    "trl": Framework("TRL", saves_on_request=True),
    "lightning": Framework("Lightning", saves_on_request=True),
    "pytorch_lightning": Framework("Lightning", saves_on_request=True),
    "keras": Framework("Keras", saves_on_request=True),
    "xgboost": Framework("XGBoost", saves_on_request=True),
    "lightgbm": Framework("LightGBM", saves_on_request=True),
    "accelerate": Framework("Accelerate"),
    "torch": Framework("PyTorch"),
    "tensorflow": Framework("TensorFlow"),
    "jax": Framework("JAX"),
    "sklearn": Framework("scikit-learn"),
}
"""By the name of the package; the first that a script imports says how it trains."""
_HELPED: Final = frozenset({"accelerate", "torch"})


class Script(NamedTuple):
    """The facts about a script."""

    packages: frozenset[str]
    """Top-level names of what it imports."""
    texts: frozenset[str]
    """Text constants in it."""
    required: tuple[str, ...]
    """Arguments without which it does not start."""
    is_main: bool
    """Whether it runs something when it is started."""

    @property
    def framework(self) -> str | None:
        """The package of the framework that says how it trains; None where no known one is imported."""
        return next((name for name in FRAMEWORKS if name in self.packages), None)

    @property
    def instrumented(self) -> bool:
        """Whether the trainer's helper finds something to follow in it."""
        name = self.framework
        return name is not None and (FRAMEWORKS[name].saves_on_request or name in _HELPED)


def read_script(content: bytes) -> Script | None:
    """Return what a script says; None where it is no Python of this version, or too long."""
    if len(content) > LONGEST:
        return None
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = list(ast.walk(tree))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return Script(
        packages=frozenset(_packages(nodes)),
        texts=frozenset(texts),
        required=tuple(_list_required(nodes)),
        is_main=any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)
        or any(isinstance(node, ast.Expr | ast.For | ast.While) and _calls(node) for node in tree.body),
    )


def _packages(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0]
                # `import tensorflow.keras as keras` and `from tensorflow import keras` are Keras.
                if ".keras" in alias.name:
                    yield "keras"
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
            if ".keras" in node.module or any(alias.name == "keras" for alias in node.names):
                yield "keras"


def _list_required(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the arguments that `argparse` will insist on."""
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != "add_argument" or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        name = node.args[0].value
        if not isinstance(name, str):
            continue
        options = {each.arg: each.value for each in node.keywords}
        if name.startswith("-"):
            required = options.get("required")
            wanted = isinstance(required, ast.Constant) and required.value is True
        else:
            count = options.get("nargs")
            wanted = "default" not in options and not (
                isinstance(count, ast.Constant) and count.value in {"?", "*"}
            )
        if wanted:
            yield name


def _calls(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))
