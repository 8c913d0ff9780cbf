"""The loader: turns the Lua files beside it into scripts that run a list of operations in one call.

Each `<name>.lua` is one transition, and each `shared/<name>.lua` a part that several of them share. Their headers say
all that the loader knows of them:

    -- name: what it does.
    -- Script  the script that a transition belongs to
    -- Uses  the shared parts that it calls
    -- KEYS  keys of the job and of the platform, as the README explains them
    -- ARGV  an argument, and what it means
    -- Rules  arguments that are rules of the platform, as `policies.Policy` explains them
    -- Returns  its answers

A script is a reader that finds out which operations a call has, what these share, the transitions themselves, and a
dispatcher over (name, keys, args), so a single call and a batch of hundreds are the same thing:

    KEYS   for each platform: its own keys, in the order of `keys.PLATFORM_KEYS`, then each operation's job keys
    ARGV   for each platform: how many operations, then for each its name and its arguments
    reply  one answer per operation; an operation that broke answers {"error", why} and disturbs no other

Each call makes its closures, so it makes few: a transition if the call has such an operation, and a part when one of
its functions is first used.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct

from tailrace.streams.keys import BANDS, FRONT, GROUP, JOB_KEYS, PLATFORM_KEYS

BRINGING = frozenset(
    {"submitting", "spawning", "scheduling", "ticking"}
)  # new work: these scripts are refused when memory is full

OF_BANDS = {
    table: {band: f"{word}_{band}" for band in BANDS} for table, word in (("jobs", "jobs"), ("fronts", "front"))
}
"""Tables in Lua, and what headers call their keys: band -> stream, and band -> those that go before it."""

_HEADER = re.compile(r"-- (?P<name>\w+): (?P<summary>.*)\n(?:--.*\n)*")
_LIST = re.compile(r"^-- (Script|Uses|KEYS|Rules)  (.*)", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]*-- .*")
_ARGUMENT = re.compile(r"^-- (?:ARGV|    )  (\w+)  ", re.MULTILINE)


class Function(Struct, frozen=True):
    """One transition, or one shared part, as its file says it."""

    name: str
    summary: str
    script: str
    uses: tuple[str, ...]
    keys: tuple[str, ...]
    rules: tuple[str, ...]
    args: tuple[str, ...]  # the rules included
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


def parse(name: str, text: str) -> Function:
    """Read the header of a Lua file; a file that does not follow the form is a bug and says so."""
    match = _HEADER.match(text)
    if not match or match["name"] != name:
        raise ValueError(f"{name}.lua does not begin with '-- {name}: <what it does>'")
    header = match[0]
    said = {word: tuple(names.split()) for word, names in _LIST.findall(header)}
    _, _, returns = header.partition("-- Returns  ")
    if "Script" in said and not returns:
        raise ValueError(f"{name}.lua does not say what it returns")
    return Function(
        name=name,
        summary=match["summary"],
        script="".join(said.get("Script", ())),
        uses=said.get("Uses", ()),
        keys=said.get("KEYS", ()),
        rules=said.get("Rules", ()),
        args=(*_ARGUMENT.findall(header), *said.get("Rules", ())),
        returns=returns.strip(),
        body=text[match.end() :],
    )


def _read(folder: str) -> dict[str, Function]:
    found = sorted((files(__name__) / folder).iterdir(), key=lambda file: file.name)
    names = {file.name.removesuffix(".lua"): file for file in found if file.name.endswith(".lua")}
    return {name: parse(name, file.read_text(encoding="utf-8")) for name, file in names.items()}


@cache
def functions() -> dict[str, Function]:
    """Every transition there is, by name."""
    return _read(".")


@cache
def shared() -> dict[str, Function]:
    """Every part that transitions share, by name."""
    return _read("shared")


@cache
def script(name: str) -> Script:
    return build(name)


@cache
def script_of(transition: str) -> Script:
    return script(functions()[transition].script)


def build(name: str, changed: Mapping[str, Function] | None = None) -> Script:
    """The script of that name; some of its transitions may be changed."""
    sources = {**functions(), **(changed or {})}
    chosen = {each.name: each for each in sources.values() if each.script == name}
    parts = _users(chosen)
    headers = [shared()["prelude"], *(shared()[part] for part in parts), *chosen.values()]
    named = {key for header in headers for word in header.keys for key in OF_BANDS.get(word, {word: word}).values()}
    keys = tuple(key for key in PLATFORM_KEYS if key in named)
    text = "\n".join(
        [
            "#!lua" if name in BRINGING else "#!lua flags=allow-oom",
            f"local GROUP, FRONT, BANDS = '{GROUP}', '{FRONT}', {{ {', '.join(map(repr, BANDS))} }}",
            _READER.replace("FIND_SHAPE", _shapes(chosen)),
            *([f"local {', '.join(parts)}"] if parts else []),
            shared()["prelude"].body,
            *(
                _parts(users, [part for part in parts if parts[part] == users])
                for users in dict.fromkeys(parts.values())
            ),
            *map(_operation, chosen.values()),
            _DISPATCHER.replace("OWN_KEYS", str(len(keys))).replace("BIND", _binding(keys)),
        ]
    )
    text = _COMMENT.sub("", text)  # a quarter of it, and the server reads all of what it is sent
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), chosen, keys)


def _users(chosen: Mapping[str, Function]) -> dict[str, tuple[str, ...]]:
    """The parts that a script needs, and for which of its transitions."""
    needed = {name: needed_parts(function.uses) for name, function in chosen.items()}
    users = {part: tuple(name for name, parts in needed.items() if part in parts) for part in shared()}
    return {part: names for part, names in users.items() if names}


def needed_parts(uses: Iterable[str]) -> set[str]:
    """Parts with the parts that they use themselves."""
    needed: set[str] = set()
    more = set(uses)
    while more:
        needed |= more
        more = {part for name in more for part in shared()[name].uses} - needed
    return needed


def _parts(users: tuple[str, ...], parts: Iterable[str]) -> str:
    """The parts that the same transitions need, if the call has one of these."""
    functions_of = (f"if name == '{part}' then\nlocal {part} = part\n{shared()[part].body}\n" for part in parts)
    return "\n".join(
        [
            f"if {' or '.join(f'operations.{user}' for user in users)} then",
            _LAZY.replace("MAKE_FUNCTIONS", "else".join(functions_of)),
            *(f"{part} = setmetatable({{ '{part}' }}, LAZY)" for part in parts),
            "end",
        ]
    )


def _binding(keys: tuple[str, ...]) -> str:
    """The table `keys` of the platform at hand."""
    place = {key: f"KEYS[k + {number}]" for number, key in enumerate(keys, 1)}
    bound = [
        f"{table} = {{ {', '.join(f'{band} = {place.pop(key)}' for band, key in of_band.items())} }}"
        for table, of_band in OF_BANDS.items()
        if place.keys() >= set(of_band.values())
    ]
    return f"keys = {{ {', '.join([*bound, *(f'{key} = {at}' for key, at in place.items())])} }}"


def _shapes(chosen: Mapping[str, Function]) -> str:
    """How many job keys and arguments an operation has, and which of these is a fence.

    The leases behind all of a platform's fences are read at once.
    """
    return "else".join(
        f"if name == '{function.name}' then\n"
        f"operation = {{ {len(function.job_keys)}, {len(function.args)}, "
        f"{function.args.index('nonce') + 1 if 'nonce' in function.args else 'nil'} }}\n"
        for function in chosen.values()
    )


def _operation(function: Function) -> str:
    """A transition, made if it is asked for."""
    lines = [f"if operations.{function.name} then", f"operations.{function.name}[4] = function(k, a)"]
    for table, offset, names in (("KEYS", "k", function.job_keys), ("ARGV", "a", function.args)):
        if names:
            values = ", ".join(f"{table}[{offset} + {i}]" for i in range(1, len(names) + 1))
            lines.append(f"local {', '.join(names)} = {values}")
    return "\n".join([*lines, function.body, "end", "end"])


_READER = """
local operations, fences = {}, {}
local last_answer -- of the operation before
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
local LAZY = { __index = function(part, field)
  local name = part[1]
  setmetatable(part, nil)
  MAKE_FUNCTIONS
  end
  return part[field]
end }"""

_DISPATCHER = """
local answers, answer_at = {}, 0
a = 1
for sheet = 1, #fences do
  BIND
  prefix = match(KEYS[k + 1], '^[^}]*}[^:]*:')
  gather()
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
    last_answer = answer
    k = k + operation[1]
    a = a + 1 + operation[2]
  end
  flush()
end
return answers"""
