"""note: who acted is kept in the same call as the act, once, and only if something was done."""

from tailrace.streams.operations import AuditNote
from tailrace.streams.store.connection import Store
from tailrace.streams.views.audit import read_audit
from tests.support.builders import Desk, forget_scripts, untouched


def note(act: str, token: str = "t", by: str = "ann") -> AuditNote:
    return AuditNote(act, token, f'{{"by":"{by}","reason":"why"}}'.encode())


async def kept(desk: Desk) -> list[tuple[str, str | None, str | None]]:
    page = await read_audit(desk.store, [desk.keys.platform])
    return [(each.act, each.job_id, each.by) for each in page.acts]


async def test_an_act_is_kept_with_who_asked(desk: Desk) -> None:
    await desk.submit("a")
    assert await desk.transitions.cancel(desk.keys, "a", note=note("cancel")) == "ok"
    assert await desk.transitions.pause(desk.keys, "ann", note("pause", "u")) == "ok"
    assert await kept(desk) == [("pause", None, "ann"), ("cancel", desk.keys.id("a"), "ann")]
    (_, cancel) = (await read_audit(desk.store, [desk.keys.platform])).acts
    assert cancel.more == {"reason": "why"}


async def test_what_did_nothing_is_not_kept(desk: Desk) -> None:
    await desk.complete(await desk.start("a"))
    await desk.transitions.pause(desk.keys, "ann")
    async with untouched(desk.store):
        assert await desk.transitions.pause(desk.keys, "bob", note("pause")) == "again"
        assert await desk.transitions.cancel(desk.keys, "a", note=note("cancel")) == "completed"
        assert await desk.transitions.cancel(desk.keys, "none", note=note("cancel")) == "missing"
        assert await desk.transitions.configure(desk.keys, 7, b"{}", note=note("configure")) == "changed"
    assert await kept(desk) == []


async def test_an_act_that_is_sent_again_or_is_done_on_many_jobs_is_kept_once(desk: Desk) -> None:
    await desk.start("a")
    for _ in range(2):
        assert await desk.transitions.cancel(desk.keys, "a", note=note("cancel", "one")) == "cancelling"
    for key in ("b", "c"):
        await desk.fail(await desk.start(key))
    for key in ("b", "c"):
        assert await desk.transitions.reopen(desk.keys, key, note=note("replay", "two")) == "ok"
    assert await kept(desk) == [("replay", desk.keys.id("b"), "ann"), ("cancel", desk.keys.id("a"), "ann")]


async def test_numbers_count_as_done_where_the_answer_is_one(desk: Desk) -> None:
    assert await desk.transitions.configure(desk.keys, 0, b"{}", note=note("configure")) == "1"
    assert await desk.transitions.restart(desk.keys, "r", [], note("restart", "u")) == 1
    assert [act for act, _, _ in await kept(desk)] == ["restart", "configure"]


async def test_the_stream_is_bounded(desk: Desk) -> None:
    fields = ("act", "x", "job", "", "said", "{}", "token", "t")
    await desk.store.commands([("XADD", desk.keys["audit"], "*", *fields) for _ in range(1300)])
    await desk.transitions.pause(desk.keys, "ann", note("pause", "new"))
    assert 1000 <= await desk.store.command("XLEN", desk.keys["audit"]) < 1200


async def test_pages_go_back_without_a_gap(desk: Desk, shop: Desk) -> None:
    for number in range(7):
        each = (desk, shop)[number % 2]
        await each.transitions.pause(each.keys, "ann", note("pause", f"p{number}"))
        await each.transitions.resume(each.keys, note("resume", f"r{number}"))
    names, seen, before = [desk.keys.platform, shop.keys.platform], [], ""
    whole = [each.id for each in (await read_audit(desk.store, names)).acts]
    while True:
        page = await read_audit(desk.store, names, 3, before)
        seen += [each.id for each in page.acts]
        if page.next is None:
            break
        before = page.next
    assert (seen, len(seen)) == (whole, 14)


async def test_an_act_is_kept_after_the_server_forgot_the_script(store: Store, desk: Desk) -> None:
    await forget_scripts(store)
    await desk.transitions.pause(desk.keys, "ann", note("pause"))
    assert len(await kept(desk)) == 1
