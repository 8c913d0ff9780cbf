"""The loader: turns the Lua files beside it into scripts that run a list of operations in one call.

Each `<name>.lua` is one transition; its header is its signature. A script is a reader that finds out which operations
a call has, what these share, the functions themselves, and a dispatcher over (name, keys, args), so a single call and a
batch of hundreds are the same thing:

    KEYS   for each platform: its own keys, in the order of `keys.PLATFORM_KEYS`, then each operation's job keys
    ARGV   for each platform: how many operations, then for each its name and its arguments
    reply  one answer per operation; an operation that broke answers {"error", why} and disturbs no other
"""

import hashlib
import re
from functools import cache
from importlib.resources import files

from msgspec import Struct

from tailrace.streams.keys import BANDS, FRONT, GROUP, JOB_KEYS, PLATFORM_KEYS


class Function(Struct, frozen=True):
    """One transition as its file says it."""

    name: str
    summary: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    returns: str
    body: str

    @property
    def job_keys(self) -> tuple[str, ...]:
        return tuple(k for k in self.keys if k in JOB_KEYS)


class Script(Struct, frozen=True):
    """Lua text ready to be sent, known to the server by its digest."""

    text: str
    sha: str
    functions: dict[str, Function]
    keys: tuple[str, ...] = ()  # of each platform, by name and in the order of `keys.PLATFORM_KEYS`


SHARED = (
    *("prelude.lua", "leases.lua", "events.lua", "ends.lua", "places.lua", "entries.lua", "rates.lua", "clock.lua"),
    *("waking.lua", "calls.lua", "gates.lua", "accept.lua"),
)
"""Definitions that the functions share; a script has those that something in it names.

A file that begins with an empty table is a room: its functions are made when one of them is first used, as most calls
need few of them.
"""

OF_BANDS = ("jobs_", "front_")  # every script binds these keys

_HEADER = re.compile(r"((?:--.*\n)+)")
_ROOM = re.compile(r"local (\w+) = \{\}\s+")
_FIELD = re.compile(r"-- (KEYS|ARGV|    )  (\S+)  ")


def parse(name: str, text: str) -> Function:
    """Read the header of a Lua file; a file that does not follow the form is a bug and says so."""
    match = _HEADER.match(text)
    if not match or not text.startswith(f"-- {name}: "):
        raise ValueError(f"{name}.lua does not begin with '-- {name}: <what it does>'")
    header = match[1]
    names: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
    section = ""
    for line in header.splitlines()[1:]:
        if found := _FIELD.match(line):
            section = found[1].strip() or section
            names[section].append(found[2])
    _, _, returns = header.partition("-- Returns  ")
    if not returns:
        raise ValueError(f"{name}.lua does not say what it returns")
    summary = header.splitlines()[0].removeprefix(f"-- {name}: ")
    return Function(name, summary, tuple(names["KEYS"]), tuple(names["ARGV"]), returns.strip(), text[match.end() :])


@cache
def functions() -> dict[str, Function]:
    """Every transition there is, by name."""
    found = sorted(files(__name__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".lua"): parse(file.name.removesuffix(".lua"), file.read_text(encoding="utf-8"))
        for file in found
        if file.name.endswith(".lua") and file.name not in SHARED
    }


def build(names: tuple[str, ...], *, brings_work: bool = False, sources: dict[str, Function] | None = None) -> Script:
    """The script that can run these functions. Only what brings new work is refused when memory is full."""
    chosen = {name: (sources or functions())[name] for name in names}
    users = _users(chosen)
    code = "\n".join([*(function.body for function in chosen.values()), *(part.text for part in users)])
    keys = tuple(key for key in PLATFORM_KEYS if key.startswith(OF_BANDS) or _names(key, code))
    parts = [
        "#!lua" if brings_work else "#!lua flags=allow-oom",
        f"local GROUP, FRONT, BANDS = '{GROUP}', '{FRONT}', {{ {', '.join(map(repr, BANDS))} }}",
        _READER.replace("FIND_SHAPE", _shapes(chosen)),
        _LAZY,
        *_declared(users, keys),
        *(_operation(function) for function in chosen.values()),
        _DISPATCHER.replace("OWN_KEYS", str(len(keys))).replace("BIND", _binding(keys)),
    ]
    text = "\n".join(parts)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), chosen, keys)


class Part(Struct, frozen=True):
    """A definition at the outermost level of a shared file: a function, or locals."""

    names: tuple[str, ...]
    text: str
    room: str = ""  # the table that the functions of its file belong to

    @property
    def is_function(self) -> bool:
        return self.text.removeprefix("local ").startswith("function ")

    @property
    def is_set(self) -> bool:
        """Whether it gives locals a value, and so has to stay a statement of its own."""
        return not self.is_function and "=" in self.text


@cache
def _parts() -> tuple[Part, ...]:
    """All that the shared files define, in their order and without comments."""
    found = []
    for name in SHARED:
        code = re.sub(r"\s*--.*", "", (files(__name__) / name).read_text(encoding="utf-8")).strip()
        room = match[1] if (match := _ROOM.match(code)) else ""
        for text in re.split(r"\n(?=local |function )", code[match.end() :] if match else code):
            head = text.removeprefix("local ")
            if head.startswith("function "):
                found.append(Part((head[len("function ") :].partition("(")[0],), text, room))
            else:
                found.append(Part(tuple(re.split(r",\s*", head.partition("=")[0].strip())), text, room))
    return tuple(found)


def _needed(code: str) -> list[Part]:
    """The shared definitions that some code names, or another of them does."""
    needed: set[Part] = set()
    named = [code]
    while named:
        found = {part for code in named for part in _named(code)} - needed
        needed |= found
        named = [part.text for part in found]
    return [part for part in _parts() if part in needed]


@cache
def _named(code: str) -> frozenset[Part]:
    """The shared definitions that some code names itself."""
    return frozenset(part for part in _parts() if any(_names(name, code) for name in part.names))


def _users(chosen: dict[str, Function]) -> dict[Part, list[str]]:
    """The shared definitions that a script needs, in their order, and for which functions; none: for every call."""
    always = _needed(_binding(PLATFORM_KEYS) + _DISPATCHER)
    needed = {function.name: _needed(function.body) for function in chosen.values()}
    users = {part: [name for name, parts in needed.items() if part in parts] for part in _parts()}
    return {part: [] if part in always else names for part, names in users.items() if names or part in always}


def _declared(users: dict[Part, list[str]], keys: tuple[str, ...]) -> list[str]:
    """What the functions of a script stand on, then those that they share.

    Each call makes its closures, so it makes only what its operations need; the functions of a room are made when one
    of them is first used. Lua finds a local that a closure uses by a walk from the newest local on: so those that most
    functions use are declared last.
    """
    own = [part for part in users if not part.room]
    rooms: dict[str, list[Part]] = {}
    for part in users:
        if part.room:
            rooms.setdefault(part.room, []).append(part)
    made = [_made(part.text.removeprefix("local "), [part], users) for part in own if part.is_function]
    for room, parts in rooms.items():
        inside = "\n".join(part.text for part in parts)
        made.append(_made(f"{room} = setmetatable({{ make = function({room})\n{inside}\nend }}, LAZY)", parts, users))

    def uses(name: str) -> int:
        return sum(_names(name, text) for text in made)

    plain = [*keys, *rooms, *(name for part in own if not part.is_set for name in part.names)]
    others = sorted((part for part in own if part.is_set), key=lambda part: sum(map(uses, part.names)))
    return [f"local {', '.join(sorted(plain, key=uses))}", *(part.text for part in others), *made]


def _made(text: str, parts: list[Part], users: dict[Part, list[str]]) -> str:
    """A statement that makes some parts, if the call has an operation that needs one of them."""
    if not all(users[part] for part in parts):
        return text
    asked = dict.fromkeys(name for part in parts for name in users[part])
    return f"if {' or '.join(f'operations.{name}' for name in asked)} then\n{text}\nend"


def _names(name: str, code: str) -> bool:
    table, dot, _ = name.partition(".")
    words = _words(code)
    return name in words or (bool(dot) and f"{table}[" in words)


@cache
def _words(code: str) -> frozenset[str]:
    """All that some code may name: words, `table.field`, and `table[` where the field is computed."""
    return frozenset(re.findall(r"\w+", code) + re.findall(r"(?=\b(\w+\.\w+)\b)", code) + re.findall(r"\w+\[", code))


def _binding(own: tuple[str, ...]) -> str:
    keys = ", ".join(f"KEYS[k + {i}]" for i in range(1, len(own) + 1))
    jobs, fronts = (", ".join(f"{band} = {name}_{band}" for band in BANDS) for name in ("jobs", "front"))
    return f"""
  {", ".join(own)} = {keys}
  prefix = match(KEYS[k + 1], '^.*}}:')
  platform = match(prefix, '{{(.*)}}')
  jobs, fronts = {{ {jobs} }}, {{ {fronts} }}
  gather()"""


def _nonce_at(function: Function) -> str:
    """Which of a function's arguments is a fence: the leases behind all of a platform's fences are read at once."""
    return str(function.args.index("nonce") + 1) if "nonce" in function.args else "nil"


def _shapes(chosen: dict[str, Function]) -> str:
    """How many job keys and arguments an operation has, and which of these is a fence."""
    return "else".join(
        f"if name == '{function.name}' then\n"
        f"operation = {{ {len(function.job_keys)}, {len(function.args)}, {_nonce_at(function)} }}\n"
        for function in chosen.values()
    )


def _operation(function: Function) -> str:
    """A function, made if it is asked for."""
    lines = [f"if operations.{function.name} then", f"operations.{function.name}[4] = function(k, a)"]
    for table, offset, names in (("KEYS", "k", function.job_keys), ("ARGV", "a", function.args)):
        if names:
            values = ", ".join(f"{table}[{offset} + {i}]" for i in range(1, len(names) + 1))
            lines.append(f"local {', '.join(names)} = {values}")
    return "\n".join([*lines, function.body, "end", "end"])


_READER = """
local operations, fences = {}, {}
local k, a = 0, 1
while a <= #ARGV do
  local nonces = {}
  local count = tonumber(ARGV[a])
  a = a + 1
  for _ = 1, count do
    local name = ARGV[a]
    local operation = operations[name]
    if not operation then
      FIND_SHAPE
      end
      operations[name] = operation
    end
    if operation[3] then
      nonces[#nonces + 1] = ARGV[a + operation[3]]
    end
    a = a + 1 + operation[2]
  end
  fences[#fences + 1] = nonces
end"""

_LAZY = """
local LAZY = { __index = function(room, name)
  setmetatable(room, nil)
  room.make(room)
  return room[name]
end }"""

_DISPATCHER = """
local answers, answer_at = {}, 0
a = 1
for sheet = 1, #fences do
  BIND
  k = k + OWN_KEYS
  read_leases(fences[sheet])
  local count = tonumber(ARGV[a])
  a = a + 1
  for _ = 1, count do
    local operation = operations[ARGV[a]]
    local fine, answer = pcall(operation[4], k, a)
    if not fine then
      answer = { 'error', type(answer) == 'table' and answer.err or tostring(answer) }
    end
    answer_at = answer_at + 1
    answers[answer_at] = answer
    k = k + operation[1]
    a = a + 1 + operation[2]
  end
  flush()
end
return answers"""
