"""Checks that this server is fit to keep jobs: when a process starts, and every minute while it runs."""

import asyncio
from collections.abc import Mapping
from functools import partial

import anyio
import hiredis

from tailrace.streams.errors import AccessDenied, NoStore, StoreError, UnfitStore
from tailrace.streams.process.logs import get_logger
from tailrace.streams.store.connection import Store
from tailrace.streams.store.node import Command, Node, check_role, clusters_node, info_fields
from tailrace.streams.store.replication import ReplicaTerms
from tailrace.streams.store.roles import RoleName, commands
from tailrace.streams.store.server import WRITES

log = get_logger()

EVERY_SECONDS = 60.0
UNFIT_SECONDS = 5.0  # between looks at a store that is not fit: a repair is noticed soon

SECTIONS = ("server", "memory", "persistence", "replication", "cluster")

# And how to ask for them: the server looks at permissions before it looks at arguments.
NOT_FROM_SCRIPTS: dict[str, Command] = {
    "BLPOP": ("BLPOP", "tailrace-probe", "never"),
    "EVALSHA": ("EVALSHA", "0" * 40, 0),
}

ONLY_ON_CLUSTERS: dict[str, Command] = {"ASKING": ("ASKING",)}  # and CLUSTER SLOTS, without which nothing works

ONLY_WITH_REPLICAS: dict[str, Command] = {"WAIT": ("WAIT", 0, 1)}

# Asks for each command whether this user may run it. A script that may not write is refused every write, but only after
# the server has looked at the user's permissions, so nothing changes. How many arguments each takes is found by trying.
PROBE = """#!lua flags=no-writes
local refused = {}
for _, command in ipairs(ARGV) do
  local words, said = {}, ''
  for word in string.gmatch(command, '[^|]+') do
    words[#words + 1] = word
  end
  repeat
    local reply = redis.pcall(unpack(words))
    said = type(reply) == 'table' and reply.err or ''
    words[#words + 1] = 'tailrace-probe'
  until #words > 12 or not string.find(said, 'umber of arg')
  if string.find(said, 'permissions to run') or string.find(said, "can't run this command") then
    refused[#refused + 1] = command
  end
end
return refused
"""


class Fitness:
    """Looks at the store every minute; `unfit` is why it must not take new jobs now."""

    def __init__(self, store: Store, role: RoleName | None = None) -> None:
        """`role`: whose work its user must be allowed to do."""
        self.unfit: UnfitStore | None = None
        self._role = role
        self._store = store
        self._said: set[str] = set()
        self._denied = ""

    async def check(self) -> None:
        """Raises `UnfitStore`, `AccessDenied` or `NoStore`; what is only not recommended is logged, once."""
        advice = await check_fitness(self._store, self._role)
        for sentence in set(advice) - self._said:
            log.warning("store_advice", advice=sentence)
        self._said = set(advice)

    async def run(self) -> None:
        """Log when the store becomes unfit, and when it is fit again. While it is unreachable nothing changes."""
        while True:
            await anyio.sleep(min(EVERY_SECONDS, UNFIT_SECONDS) if self.unfit else EVERY_SECONDS)
            try:
                await self.check()
            except UnfitStore as error:
                if str(error) != str(self.unfit):
                    log.error("store_unfit", reason=str(error))
                self.unfit = error
            except AccessDenied as error:  # each call is refused by the store itself
                if str(error) != self._denied:
                    log.error("store_access_denied", reason=str(error))
                self._denied = str(error)
            except StoreError:
                continue
            else:
                if self.unfit:
                    log.info("store_fit_again")
                self.unfit, self._denied = None, ""


async def check_fitness(store: Store, role: RoleName | None = None) -> list[str]:
    """Refuse a server that would lose jobs; return what is allowed but not recommended, as sentences.

    The user must be allowed to do the work of this role; of all roles if none is named. On a cluster each node is
    looked at. One that does not answer is named: the platforms of others go on.
    """
    nodes = await store.nodes()
    terms = store.terms if store.terms.everywhere or any(map(store.replicated, store.policies)) else None

    async def check(node: Node) -> list[str]:
        advice = await check_node(node, role, clustered=store.clustered, terms=terms)
        return [*advice, *await check_keys(node, store.keys("default")["control"])]

    found = await asyncio.gather(
        *(node.glance(partial(check, node)) if len(nodes) > 1 else check(node) for node in nodes),
        return_exceptions=True,
    )
    down = [error for error in found if isinstance(error, NoStore)]
    advice: list[str] = []
    for node, said in zip(nodes, found, strict=True):
        if isinstance(said, NoStore) and len(down) < len(nodes):
            advice.append(f"node {node.name} does not answer, and jobs of its platforms wait: {said}")
        elif isinstance(said, BaseException):
            raise said
        else:
            advice += [sentence if not store.clustered else f"node {node.name}: {sentence}" for sentence in said]
    if uncovered := store.uncovered():
        advice.append(f"no node of the cluster serves slots {', '.join(uncovered)}; jobs of their platforms wait")
    return advice


async def check_node(
    node: Node, role: RoleName | None, *, clustered: bool, terms: ReplicaTerms | None = None
) -> list[str]:
    """Check one server; `terms`: it needs replicas."""
    replies = await node.commands([("INFO", section) for section in SECTIONS])
    server, memory, persistence, replication, cluster = [info_fields(raw) for raw in replies]
    if int(server.get("redis_version", "7").partition(".")[0]) < 7:  # a Valkey tells which Redis it is like
        raise UnfitStore("the store is older than Redis 7.0 or Valkey 7.2; take a newer one")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise UnfitStore(f"the store evicts keys ({policy}) and would drop jobs; set `maxmemory-policy noeviction`")
    if cluster.get("cluster_enabled") == "1" and not clustered:
        raise clusters_node(node.name)
    try:
        check_role(replication)
    except NoStore as error:
        node.leave(str(error))
        raise
    others = NOT_FROM_SCRIPTS | (ONLY_ON_CLUSTERS if clustered else {}) | (ONLY_WITH_REPLICAS if terms else {})
    await check_commands(node, role, others)
    advice = []
    if terms and (there := int(replication.get("connected_slaves", 0))) < terms.replicas:
        advice.append(
            f"the store has {there} of the {terms.replicas} replicas that TAILRACE_REPLICAS asks for; "
            "until it has them, replicated platforms accept, start and end no jobs"
        )
    if persistence.get("aof_enabled") != "1":
        advice.append("the store keeps no append-only file: jobs are lost when it restarts; set `appendonly yes`")
    failing = [name for name in WRITES if persistence.get(name, "ok") != "ok"]
    if failing:
        advice.append(f"the store reports {', '.join(failing)}; look at its log and its free disk space")
    return advice


async def check_commands(node: Node, role: RoleName | None, others: Mapping[str, Command]) -> None:
    """Refuse a server that does not let this user run all that is sent."""
    asked = commands(role)
    from_scripts = [command for command in asked if command not in NOT_FROM_SCRIPTS]
    refused = [command.decode() for command in await node.command("EVAL", PROBE, 0, *from_scripts)]
    named = [name for name in others if name != "BLPOP" or not role or name in asked]
    for name, reply in zip(named, await node.trip([hiredis.pack_command(others[name]) for name in named]), strict=True):
        if is_denied(reply) and "to run" in str(reply):  # of keys nothing is asked
            refused.append(name)
    if refused:
        names = ", ".join(command.replace("|", " ") for command in refused)
        raise AccessDenied(f"the store does not let the user of REDIS_URL run {names}; allow it with ACL SETUSER")


async def check_keys(node: Node, key: str) -> list[str]:
    """Advice if this user may not use our keys. Servers check permissions before they look for a script.

    A user may be allowed the keys of some platforms only, so this refuses nothing.
    """
    question: Command = ("EVALSHA", "0" * 40, 1, key)
    (reply,) = await node.trip([hiredis.pack_command(question)])
    if not is_denied(reply) or "to run" in str(reply):
        return []
    return [f"the store does not let the user of REDIS_URL use keys such as {key}; allow them with ACL SETUSER"]


def is_denied(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOPERM")
