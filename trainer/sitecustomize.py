# Run by Python when it starts, for PYTHONPATH names the folder of this file first. Any Python has to be
# able to read it. It leaves processes alone that have no sidecar, and runs the sitecustomize that stands
# behind it.
import os
import sys


def _instrument():
    if sys.version_info < (3, 8) or not os.environ.get("SPECON_SOCKET"):
        return
    if os.environ.get("SPECON_INSTRUMENT", "").lower() in ("off", "false", "0"):
        return
    try:
        from specon import instrument

        instrument.install()
    except Exception as error:
        try:
            sys.stderr.write("specon: the import hook is off: %s: %s\n" % (type(error).__name__, error))
        except Exception:
            pass


def _run_the_one_behind(folder):
    kept = list(sys.path)
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in kept if os.path.abspath(path) != folder]
    without = list(sys.path)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        missing = getattr(error, "name", None) or str(error).split()[-1:]
        if missing not in ("sitecustomize", ["sitecustomize"]):
            raise
    finally:
        # It may have changed the path: what it added stays, and ours is first again.
        if sys.path == without:
            sys.path[:] = kept
        else:
            sys.path.insert(0, folder)
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


_instrument()
_run_the_one_behind(os.path.dirname(os.path.abspath(__file__)))
