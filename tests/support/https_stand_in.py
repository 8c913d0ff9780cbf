"""A receiver of webhooks on loopback that speaks https, with a certificate of its own."""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MAKE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"


class StandIn:
    """Keeps what is posted, by path. A path in `refusing` answers with that status."""

    def __init__(self, folder: Path) -> None:
        self.posted: dict[str, list[Any]] = {}
        self.refusing: dict[str, int] = {}
        self.ca_file, key = folder / "cert.pem", folder / "key.pem"
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        files = ["-keyout", str(key), "-out", str(self.ca_file), "-addext", names]
        subprocess.run([*MAKE.split(), *files], check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.ca_file, key)
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = stand_in.refusing.get(self.path, 200)
                if status == 200:
                    stand_in.posted.setdefault(self.path, []).append(json.loads(body))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_port}"

    @contextmanager
    def listening(self) -> Iterator["StandIn"]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def texts(self, path: str) -> list[str]:
        """What Slack or Discord would show."""
        return [body.get("text") or body["content"] for body in self.posted.get(path, [])]
