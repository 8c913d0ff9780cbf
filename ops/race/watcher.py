"""A client that watches a job live: it reads the stream, loses its connection now and then, and resumes by id.

It keeps every event as it comes: `gateway.follow` passes over one that comes twice, and a race shows that none does.
"""

import http.client
import json
import threading
from typing import Any

from tailrace.gateway.client.event_stream import Frame, Frames

PATIENCE_SECONDS = 30.0


class StreamWatcher(threading.Thread):
    """Gathers the events of a job's stream, up to its `end`."""

    def __init__(self, address: tuple[str, int], job_id: str, *, leaves_after: int = 0) -> None:
        """With `leaves_after` the connection is cut after this many events, again and again."""
        super().__init__(name=f"watcher of {job_id}", daemon=True)
        self._address = address
        self._path = f"/research/stream/{job_id}"
        self._leaves_after = leaves_after
        self.events: list[dict[str, Any]] = []
        self.connections = 0
        self.resets = 0
        self.ended = False
        self.trouble: Exception | None = None

    def run(self) -> None:
        try:
            while not self.ended:
                self._connect()
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.trouble = error

    def _connect(self) -> None:
        link = http.client.HTTPConnection(*self._address, timeout=PATIENCE_SECONDS)
        self.connections += 1
        try:
            headers = {"Last-Event-ID": self.events[-1]["id"]} if self.events else {}
            link.request("GET", self._path, headers=headers)
            response = link.getresponse()
            if response.status == 204:
                self.ended = True
            elif response.status == 200:
                self._read(response)
            else:
                raise http.client.HTTPException(f"{self._path} answered {response.status}")
        finally:
            link.close()

    def _read(self, response: http.client.HTTPResponse) -> None:
        frames, gathered = Frames(), 0
        while chunk := response.read1():
            for frame in frames.feed(chunk):
                self._take(frame)
                gathered += 1
                if self.ended or gathered == self._leaves_after:
                    return

    def _take(self, frame: Frame) -> None:
        if frame.event == "end":
            self.ended = True
        elif frame.event == "reset":
            self.resets += 1
            self.events.clear()
        else:
            self.events.append(json.loads(frame.data))
