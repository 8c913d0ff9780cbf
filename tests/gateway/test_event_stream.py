"""The client's reading of a stream: cut anywhere, ended by CR, LF or both, it is what the standard says."""

import re
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.gateway.client.event_stream import Frame, Frames, TooLarge
from tests.gateway.event_source import Message, Reading

TEXTS = st.text(st.sampled_from("ab: 1\0\u2028\x85é🙂\ufeff"), max_size=6)
NAMES = st.sampled_from(["data", "event", "id", "retry", "", "dat", " data", "DATA"])
LINES = st.one_of(
    st.just(""),
    st.just("data"),
    st.just("id"),
    st.builds("{}:{}".format, NAMES, TEXTS),
    st.builds("{}: {}".format, NAMES, TEXTS),
    st.just("retry: 1500"),
)
STREAMS = st.builds(
    lambda mark, lines, rest: (mark + "".join(line + end for line, end in lines) + rest).encode(),
    st.sampled_from(["", "\ufeff", "\ufeff\ufeff"]),
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r", "\r\n"])), max_size=20),
    TEXTS,
)
NOISE = st.lists(st.sampled_from([b"data:", b"id:", b"\r", b"\n", b"\xff", b"\xe2\x80", b"\xef\xbb\xbf", b"x"])).map(
    b"".join
)


def by_the_book(stream: bytes) -> tuple[list[Frame], int | None]:
    """The algorithm of the standard over the whole text at once."""
    text = stream.decode(errors="replace").removeprefix("\ufeff")
    frames, retry, last_id, event, data = [], None, "", "", ""
    for line in re.split("\r\n|\r|\n", text)[:-1]:
        name, colon, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if line == "":
            if data:
                frames.append(Frame(event or "message", last_id, data[:-1]))
            event = data = ""
        elif colon and name == "":
            continue
        elif name == "event":
            event = value
        elif name == "data":
            data += value + "\n"
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value and all(character in "0123456789" for character in value):
            retry = int(value)
    return frames, retry


def pieces(stream: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for start, stop in pairwise(places):
        yield stream[start:stop]


@given(st.one_of(STREAMS, NOISE), st.lists(st.integers(0, 10_000), max_size=40))
def test_a_stream_cut_anywhere_is_read_by_the_book(stream: bytes, cuts: list[int]) -> None:
    frames = Frames()
    told = [frame for piece in pieces(stream, cuts) for frame in frames.feed(piece)]
    assert (told, frames.retry_ms) == by_the_book(stream)


@given(st.one_of(STREAMS, NOISE))
def test_a_stream_may_come_byte_by_byte(stream: bytes) -> None:
    frames = Frames()
    told = [frame for number in range(len(stream)) for frame in frames.feed(stream[number : number + 1])]
    assert told == by_the_book(stream)[0]


VISIBLE = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=20)
MESSAGES = st.lists(
    st.builds(
        lambda id_, text: f"id: {id_}\ndata: {text}\n\n",
        st.from_regex(r"[0-9]{1,3}-[0-9]{1,5}", fullmatch=True),
        VISIBLE.filter(bool),
    )
)


@given(MESSAGES, st.lists(st.integers(0, 10_000), max_size=20))
async def test_it_hears_what_the_event_source_of_the_tests_hears(messages: list[str], cuts: list[int]) -> None:
    stream = "".join(["retry: 1000\n\n", *messages, ": ping\n\n", "event: end\ndata: {}\n\n"]).encode()

    async def arriving() -> AsyncIterator[bytes]:
        for piece in pieces(stream, cuts):
            yield piece

    reading = Reading(httpx2.Response(200, content=arriving()))
    heard = await reading.rest()
    frames = Frames()
    told = [frame for piece in pieces(stream, cuts) for frame in frames.feed(piece)]
    assert [(frame.event, frame.data) for frame in told] == [(message.event, message.data) for message in heard]
    assert [frame.id for frame in told[:-1]] == [message.id for message in heard[:-1]]
    assert heard[-1] == Message("end", None, "{}")
    assert frames.retry_ms == reading.retry


def test_a_frame_without_its_empty_line_is_none() -> None:
    assert Frames().feed(b"data: half\n") == []


def test_an_id_with_a_nul_is_no_id() -> None:
    assert Frames().feed(b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n") == [
        Frame("message", "1", "a"),
        Frame("message", "1", "b"),
    ]


@pytest.mark.parametrize("endless", [b"data: x", b"data: x\n", b"data\n", b": x", b"x"])
def test_what_never_ends_is_refused_before_it_takes_much_memory(endless: bytes) -> None:
    frames = Frames(10_000)

    def hear_it_all() -> None:
        for _ in range(12_000):
            frames.feed(endless)

    with pytest.raises(TooLarge, match="over 10000 bytes"):
        hear_it_all()


def test_comments_and_frames_without_number_are_no_reason_to_stop() -> None:
    frames = Frames(1_000)
    for _ in range(2_000):
        assert frames.feed(b": ping\n\ndata: x\n\n") == [Frame("message", "", "x")]
