"""The routes, one file for each subject. To import any of them fills the whole table."""

from importlib import import_module
from pkgutil import iter_modules

for subject in iter_modules(__path__):
    import_module(f"{__name__}.{subject.name}")
