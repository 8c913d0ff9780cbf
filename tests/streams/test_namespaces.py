"""Several applications on one store: each has a namespace, and they share nothing."""

from pathlib import Path

import pytest

from tailrace.streams.errors import AccessDenied
from tailrace.streams.keys import Keyspace
from tailrace.streams.store.connection import Store
from tailrace.streams.store.fitness import NOT_FROM_SCRIPTS
from tailrace.streams.store.roles import commands
from tailrace.streams.store.shared_keys import keep_session, keep_ticket, read_session, take_ticket
from tailrace.streams.views.overview import take_overviews
from tests.support.builders import Desk
from tests.support.deployment import Deployment

SHOP, OTHER = Keyspace("shop-staging"), Keyspace("other")


async def test_two_namespaces_on_one_store_share_nothing(store_url: str) -> None:
    async with Store(store_url, SHOP) as store, Store(store_url, OTHER) as stranger, Store(store_url) as root:
        shop, other, alone = Desk(store, "kurly"), Desk(stranger, "kurly"), Desk(root, "kurly")
        await shop.submit("a")
        assert await other.claim() == await alone.claim() == []
        assert (await other.submit("a"))[0][0] == "accepted", "the same id is another job there"
        (claimed,) = await shop.claim()
        await shop.complete(claimed)
        assert [each.waiting for each in await take_overviews(stranger, ["kurly"])] == [1]
        await keep_session(store, "digest", "me", 60)
        await keep_ticket(store, "digest", "me", 60)
        assert await read_session(stranger, "digest") is await take_ticket(root, "digest") is None
        assert await read_session(store, "digest") == await take_ticket(store, "digest") == "me"
        names = {name.decode().partition("{")[0].partition("session")[0] for name in await root.command("KEYS", "*")}
    assert names == {"tr:shop-staging:", "tr:other:", "tr:"}, "the last are the lists of who was idle"


async def test_a_user_of_one_namespace_reaches_no_other(store_url: str) -> None:
    allowed = [f"+{command.lower()}" for command in (*commands(), *NOT_FROM_SCRIPTS)]
    async with Store(store_url) as admin:
        rule = [*allowed, "+eval", "+info", "+client", "+select", "~tr:shop-staging:*"]
        await admin.command("ACL", "SETUSER", "staging", "reset", "on", ">secret", "-@all", *rule)
        user = store_url.replace("unix://", "unix://staging:secret@").replace("redis://", "redis://staging:secret@")
        async with Store(user, SHOP) as store, Store(user, OTHER) as stranger:
            desk = Desk(store, "kurly")
            await desk.submit("a")
            await desk.complete((await desk.claim())[0])
            with pytest.raises(AccessDenied, match="key"):
                await Desk(stranger, "kurly").submit("a")
        await admin.command("ACL", "DELUSER", "staging")


async def test_every_process_works_in_the_namespace_of_its_settings(valkey_url: str, tmp_path: Path) -> None:
    async with Deployment(valkey_url, tmp_path, 'namespace = "shop-staging"') as deployment:
        await deployment.consumer("research")
        gateway = await deployment.gateway()
        job = (await deployment.http.post(f"{gateway.url}/research/start", json={"query": "x"})).json()["jobId"]
        assert [event.status for event in await deployment.ended(job)][-1] == "completed"
        keys = await deployment.store.command("KEYS", "*")
    assert {key.decode().partition("{")[0] for key in keys} == {"tr:shop-staging:"}
