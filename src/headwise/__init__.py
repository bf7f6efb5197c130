"""headwise: exact numbers for every head of a transformer, checked against the model's own output."""

import lazy_loader

__version__ = "0.1.0"

# Public names are listed in `__init__.pyi` and imported at first use: `import headwise` is fast, and transformers and xarray are
# imported only when a model is opened.
_load, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Names of earlier releases, each with the one that replaces it.
_RENAMED = {"Blind": "MaskKeys", "Silence": "Ablate", "Temper": "Temperature", "Tie": "TieHeads"}


def __getattr__(name: str) -> object:
    if name in __all__:
        return _load(name)
    if name in _RENAMED:
        from headwise.deprecation import renamed

        return _load(renamed(name, _RENAMED, __name__))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}. It has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
