"""Distributed TensorFlow from an app package, on one machine, YARN, Kubernetes or Spark."""

__version__ = "0.1.0"

# Public name -> the module that defines it. `__init__.pyi` has their types.
_NAMES = {
    "Application": "tfapp.api.handle",
    "Component": "tfapp.topology",
    "Context": "tfapp.program.context",
    "Experiment": "tfapp.program.experiment",
    "KerasExperiment": "tfapp.program.experiment",
    "NamedFunction": "tfapp.program.named",
    "Result": "tfapp.api.result",
    "all_reduce": "tfapp.topology",
    "compile": "tfapp.api.call",
    "log_to_mlflow": "tfapp.api.mlflow",
    "open": "tfapp.api.call",
    "parameter_servers": "tfapp.topology",
    "run": "tfapp.api.call",
    "single_server": "tfapp.topology",
    "submit": "tfapp.api.call",
    "write_package": "tfapp.api.call",
}


__all__ = [*_NAMES, "errors"]


def __getattr__(name):  # type: ignore[no-untyped-def]
    """Imports a public name when it is first used."""
    import importlib

    if name == "errors":
        return importlib.import_module("tfapp.errors")
    if name not in _NAMES:
        raise AttributeError(f"module 'tfapp' has no attribute {name!r}")
    try:
        found = getattr(importlib.import_module(_NAMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "tfapp.api":
            raise
        # In a container, without tfapp.api: a program may import the module that submits it.
        found = _not_here(name)
    globals()[name] = found
    return found


def __dir__():  # type: ignore[no-untyped-def]
    return sorted({*globals(), *__all__})


def _not_here(name):  # type: ignore[no-untyped-def]
    def refuse(*args, **kwargs):  # type: ignore[no-untyped-def]
        from tfapp.errors import UsageError

        raise UsageError(
            f"tfapp.{name} cannot be called in a container",
            'Call it where you submit from: below `if __name__ == "__main__":`.',
        )

    return refuse
