"""Bytes of an event stream in, frames out, by the rules of the standard (WHATWG HTML, 9.2.6); pure."""

import re
from typing import Final, NamedTuple

LARGEST_FRAME: Final = 2 * 1024 * 1024  # bytes; an event has 1 MB at most, and a few bytes of framing

_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_MARK: Final = b"\xef\xbb\xbf"  # a byte order mark may stand in front of everything


class TooLarge(ValueError):
    """A frame that would take more memory than any event of ours needs."""


class Frame(NamedTuple):
    """One frame of a stream."""

    event: str  # `message` when the frame names none
    id: str  # the newest id of the stream so far, of this frame or of one before it
    data: str


class Frames:
    """The frames of one stream. The stream may be cut into chunks anywhere; a frame without its empty line is none."""

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        self.retry_ms: int | None = None  # how long to stay away after a broken connection, if the stream says so
        self._largest = largest
        self._first = True  # the first line is still to come
        self._after_return = False  # a line feed that comes now belongs to the carriage return before it
        self._pieces: list[bytes] = []  # of the line that is under way
        self._piece_bytes = 0
        self._id = ""
        self._clear()

    def _clear(self) -> None:
        self._event = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that end with this chunk. Raises `TooLarge`."""
        if self._after_return and chunk:
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        if not chunk:
            return []
        self._after_return = chunk.endswith(b"\r")
        *ends, rest = _LINE_ENDS.split(chunk)
        frames = []
        for end in ends:
            line = b"".join((*self._pieces, end))
            self._pieces.clear()
            self._piece_bytes = 0
            if frame := self._take(line):
                frames.append(frame)
        if rest:
            self._pieces.append(rest)
            self._piece_bytes += len(rest)
            self._bound()
        return frames

    def _bound(self) -> None:
        if self._data_bytes + self._piece_bytes > self._largest:
            raise TooLarge(f"one frame has over {self._largest} bytes")

    def _take(self, line: bytes) -> Frame | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.decode(errors="replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._data_bytes += len(line)
                self._bound()
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if _DIGITS.fullmatch(value):
                self.retry_ms = int(value)
        return None  # a comment has no name, and other names mean nothing

    def _dispatch(self) -> Frame | None:
        frame = Frame(self._event or "message", self._id, "\n".join(self._data)) if self._data else None
        self._clear()
        return frame
