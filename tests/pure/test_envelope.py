"""The envelope of a job with children: what goes in comes out, and views see the args alone."""

from msgspec import Raw

from tailrace.streams.flows.envelope import PLACE, FlowNode, args_within, seal, unseal
from tailrace.streams.flows.spawning import MOST_CHILDREN, NewJob, child_keys, flow_keys, pages
from tailrace.streams.messages import Job
from tailrace.streams.options import NO_OPTIONS, Options, handed_options


def test_a_tree_comes_out_as_it_went_in() -> None:
    leaf = FlowNode("kurly", "page", Raw(b'{"n":1}'), Options(attempts=7))
    inner = FlowNode("ably", "shop", children=(leaf, leaf))
    envelope = unseal(seal(b'{"a":[1]}', [inner, leaf]))
    assert bytes(envelope.args) == b'{"a":[1]}'
    assert envelope.children == (inner, leaf)


def test_a_node_becomes_a_job_that_carries_what_is_below_it() -> None:
    leaf = FlowNode("kurly", "page", Raw(b'{"n":1}'), Options(attempts=7))
    assert leaf.job("k") == Job("kurly", "k", "page", b'{"n":1}', Options(attempts=7))
    job = FlowNode("ably", "shop", Raw(b"[]"), children=(leaf,)).job("k")
    assert job.flow
    assert handed_options(job.extras.removeprefix("options=")).flow
    assert unseal(job.args).children == (leaf,)


def test_the_args_are_seen_without_the_envelope() -> None:
    payload = seal(b'{"a":1}', [])
    assert args_within('{"flow":true}', payload) == b'{"a":1}'
    assert args_within(None, payload) == args_within('{"attempts":3}', payload) == payload


def test_the_key_of_a_child_is_the_same_for_the_same_place() -> None:
    (key,) = child_keys("a.b", "1", "page", [3])
    assert key == "shdve5c3dol724pl25t2nwsz", "jobs under way have it"
    others = {("a.b", "1", "page", 4), ("a.b", "2", "page", 3), ("a.c", "1", "page", 3), ("a.b", "1", "mail", 3)}
    assert len({key, *(next(child_keys(job, place, kind, [index])) for job, place, kind, index in others)}) == 5


def test_the_keys_of_the_children_of_a_tree_follow_their_order() -> None:
    pages, mails = (list(child_keys("a.b", PLACE, kind, range(4))) for kind in ("page", "mail"))
    assert flow_keys("a.b", ["page", "mail", "mail", "page"]) == [pages[0], mails[1], mails[2], pages[3]]


def test_children_are_paged_by_number_and_by_bytes() -> None:
    small = [NewJob(Job("kurly", str(n), "page", b"{}"), "f") for n in range(250)]
    assert [len(page) for page in pages(small)] == [75, 75, 75, 25]
    large = [NewJob(Job("kurly", str(n), "page", b"x" * 200_000, NO_OPTIONS), "f") for n in range(5)]
    assert [len(page) for page in pages(large)] == [2, 2, 1]
    said = [NewJob(Job("kurly", str(n), "page", b"{}", Options(attempts=2)), "f") for n in range(50)]
    assert [len(page) for page in pages(said)] == [25, 25]
    assert not list(pages([]))
    assert MOST_CHILDREN == 10_000
