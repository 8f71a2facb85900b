"""Functions that are called when a module is imported: integrations patch a framework with them."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from specon.said import say_once

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Sequence

    Patch = Callable[[ModuleType], object]

_waiting: dict[str, list[Patch]] = {}


def register(module_name: str, patch: Patch) -> None:
    """Have `patch` called with the module once it was imported; at once where that is so.

    It is called once per process. What it raises is told in one line, and the framework stays as it is.
    """
    module = sys.modules.get(module_name)
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        _apply(module, patch)
        return
    _waiting.setdefault(module_name, []).append(patch)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def install() -> None:
    """Register all integrations, unless `SPECON_INSTRUMENT` says `off`, or there is no sidecar."""
    if not os.environ.get("SPECON_SOCKET"):
        return
    if os.environ.get("SPECON_INSTRUMENT", "").lower() in {"off", "false", "0"}:
        return
    for module_name, integration in import_module("specon.integrations").TABLE.items():
        register(module_name, _patch_of(integration))


def _patch_of(integration: str) -> Patch:
    def patch(module: ModuleType) -> None:
        import_module("specon.integrations." + integration).patch(module)

    return patch


def _apply(module: ModuleType, patch: Patch) -> None:
    try:
        patch(module)
    except Exception as error:  # noqa: BLE001 - never into the trainer
        say_once(f"{module.__name__} is left as it is: {type(error).__name__}: {error}")


class _Finder:
    """Has the other finders find, and calls the patches after the module was executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own specification, whose loader calls the patches once."""
        if name not in _waiting:
            return None
        try:
            spec = _find(name, path, target)
            if spec is None or spec.loader is None:
                return None
            _patch_after(name, spec.loader)
        except Exception as error:  # noqa: BLE001 - never into the trainer
            _waiting.pop(name, None)
            say_once(f"{name} is left as it is: {type(error).__name__}: {error}")
            return None
        return spec


def _find(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = None if isinstance(finder, _Finder) else getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, path, target)
        if spec is not None:
            return spec
    return None


def _patch_after(name: str, loader: Any) -> None:
    """Have the loader call the patches after it has executed this module, and then be itself again."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        if module.__name__ != name:
            return  # a loader of many modules
        if loader.__dict__.get("exec_module") is exec_module:
            del loader.exec_module
        for patch in _waiting.pop(name, ()):
            _apply(module, patch)

    loader.exec_module = exec_module
