"""Finds a user's handlers: a module by its import path, or a file."""

import importlib
import importlib.util
import site
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tailrace.consumers.registry import Handlers
from tailrace.streams.errors import BadConfiguration
from tailrace.streams.process.settings import naming


def load_handlers(where: str, named_by: str = "TAILRACE_HANDLERS") -> Handlers[Any]:
    """The handlers of a user's module, given by import path (`shop.handlers`) or as a file (`./handlers.py`).

    `named_by`: the setting or the flag it was given with.
    """
    with naming(named_by):
        found = [value for value in vars(_module(where)).values() if isinstance(value, Handlers)]
        if not found:
            raise BadConfiguration(f"{where} has no Handlers(); write `handles = Handlers()` there")
    handlers: Handlers[Any] = Handlers()
    for more in found:
        handlers = handlers.under(more)
    return handlers


def _module(where: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            _search(Path.cwd())
            return importlib.import_module(where)
        file = Path(where).absolute()
        root, name = package_of(file)
        for folder in {root: None, file.parent: None, Path.cwd(): None}:
            _search(folder)
        return importlib.import_module(name) if "." in name and file.is_file() else module_of_file(file, name)
    except BadConfiguration:
        raise
    except Exception as error:  # a typing mistake there is as likely as a missing module
        cause = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        hint = "; name the module by its import path, such as shop.handlers" if "relative import" in str(error) else ""
        raise BadConfiguration(f"cannot import {where}: {cause}{hint}") from error


def package_of(file: Path) -> tuple[Path, str]:
    """The folder from which a file is imported, and its name there: a module of a package can import its siblings."""
    names, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def _search(folder: Path) -> None:
    """Have modules of the user found in this folder: before installed packages, but not before Python's own modules."""
    if str(folder) not in sys.path:
        installed = {*site.getsitepackages(), site.getusersitepackages()}
        place = next((place for place, path in enumerate(sys.path) if path in installed), len(sys.path))
        sys.path.insert(place, str(folder))


def module_of_file(path: Path, name: str) -> ModuleType:
    """Load a file as the module of this name."""
    if not path.is_file():
        raise BadConfiguration(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module
