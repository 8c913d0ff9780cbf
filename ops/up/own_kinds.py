"""Which kinds a module of handlers has, read from its text: `up` runs no code of the user, its consumers do."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class OwnKind(NamedTuple):
    """A kind, and the platform that its handler names."""

    kind: str
    platform: str | None


def own_kinds(where: str) -> list[OwnKind]:
    """The kinds of `./handlers.py` or `shop.handlers`, in order; none if the text does not tell them."""
    path = Path(where) if where.endswith(".py") else Path(*where.split("."))
    for file in (path,) if path.suffix else (path.with_suffix(".py"), path / "__init__.py"):
        try:
            return list(registered(ast.parse(file.read_bytes())))
        except (OSError, SyntaxError, ValueError):  # the consumers say what is wrong with it
            continue
    return []


def registered(module: ast.Module) -> Iterator[OwnKind]:
    """The kind and platform that `@handles("kind", platform="…")` registers, where `handles = Handlers(…)`."""
    sets: set[str] = set()
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="Handlers"))):
                sets.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Name(id="Handlers"))):
                sets.add(name)
            case ast.FunctionDef(decorator_list=decorators) | ast.AsyncFunctionDef(decorator_list=decorators):
                yield from (kind for each in decorators for kind in named(each, sets))


def named(decorator: ast.expr, sets: set[str]) -> Iterator[OwnKind]:
    match decorator:
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(kind)), *_], keywords=more) if name in sets:
            said = {each.arg: each.value.value for each in more if isinstance(each.value, ast.Constant)}
            platform = said.get("platform")
            yield OwnKind(kind, platform if isinstance(platform, str) else None)
