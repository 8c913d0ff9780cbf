"""The long description: README.md without relative links, which lead nowhere on a package index.

Everything else is in pyproject.toml.
"""

import runpy
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
docs = runpy.run_path(str(HERE / "tailrace" / "ops" / "docs.py"))

setup(
    long_description=docs["without_relative_links"]((HERE / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
