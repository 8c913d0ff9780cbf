"""The way in: what a URL says of a server, who is let in, and TLS."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest
import redis

from tailrace.ops.up.own_store import OwnStore
from tailrace.streams.errors import AccessDenied, BadConfiguration, NoStore
from tailrace.streams.store.addresses import read_url
from tailrace.streams.store.connection import Store
from tests.support.ports import free_port
from tests.support.sentinels import PASSWORD, Sentinels
from tests.support.server import QUICK

CERTIFICATE = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
FILES = "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"


@pytest.mark.parametrize(
    ("url", "host", "port", "login", "database"),
    [
        ("redis://", "localhost", 6379, (), 0),
        ("redis://h:1/7", "h", 1, (), 7),
        ("redis://:p%2F%3F%40@h", "h", 6379, ("p/?@",), 0),
        ("rediss://us%3Aer:p@[::1]:7/1?db=2", "::1", 7, ("us:er", "p"), 2),
        ("redis://h?username=u&password=p%2520", "h", 6379, ("u", "p%20"), 0),
        ("redis://u:p@h?username=x&password=y", "h", 6379, ("u", "p"), 0),
        ("redis://u@h", "h", 6379, ("u", ""), 0),
        ("redis://h?socket_timeout=5&protocol=3&max_connections=9", "h", 6379, (), 0),
        ("unix:///run/a%20b.sock?db=3", "", 6379, (), 3),
    ],
)
def test_a_url_is_taken_apart(url: str, host: str, port: int, login: tuple[str, ...], database: int) -> None:
    target = read_url(url)
    assert (target.host, target.port, target.login, target.database) == (host, port, login, database)
    assert target.path == ("/run/a b.sock" if url.startswith("unix") else "")
    assert (target.tls is not None) is url.startswith("rediss")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h?ssl_cert_reqs=none", "ssl_cert_reqs is an option of TLS; write rediss://"),
        ("rediss://h?ssl_cert_reqs=perhaps", "ssl_cert_reqs is 'perhaps'; it must be one of none, optional, required"),
        ("rediss://h?ssl_min_version=1", "ssl_min_version must be"),
        ("redis://h?hidden=1", "has an unknown option after `\\?`; known are client_name, db,"),
        ("unix://", "is not a valid URL"),
        ("http://h", "is not a valid URL"),
        ("localhost", "is not a valid URL"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, words: str) -> None:
    with pytest.raises(BadConfiguration, match=f"REDIS_URL:? {words}") as refusal:
        read_url(url)
    assert "hidden" not in str(refusal.value)


async def test_who_is_let_in_and_who_is_not(tmp_path: Path) -> None:
    with OwnStore(tmp_path / "data", extra_args=(*QUICK, "--requirepass", "right")) as server:
        scheme, _, at = server.url.partition("://")
        async with Store(f"{scheme}://:right@{at}") as store:
            await store.command("ACL", "SETUSER", "ann", "on", ">word", "~*", "+@all")
        for login in ("ann:word@", ":right@", "default:right@"):
            async with Store(f"{scheme}://{login}{at}?client_name=desk&db=2") as store:
                assert await store.command("CLIENT", "GETNAME") == b"desk"
                assert b" db=2 " in await store.command("CLIENT", "INFO")
        for login in ("", ":wrong@", "ann:wrong@", "bob:word@"):
            async with Store(f"{scheme}://{login}{at}") as store:
                with pytest.raises(AccessDenied, match=r"refuses the credentials of REDIS_URL: (NOAUTH|WRONGPASS)"):
                    await store.command("PING")
        async with Store(f"{scheme}://:right@{at}?db=99") as store:
            with pytest.raises(AccessDenied, match="names database 99, which this store does not have"):
                await store.command("PING")


@pytest.fixture
async def certified(tmp_path: Path, leave_out: Callable[[str], NoReturn]) -> Path:
    """A folder with a certificate for this machine, and its key."""
    try:
        words = [*CERTIFICATE.split(), *FILES.split()]
        await asyncio.to_thread(subprocess.run, words, cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        leave_out("there is no openssl on this machine")
    return tmp_path


@asynccontextmanager
async def behind_tls(port: int | None, certified: Path) -> AsyncIterator[int]:
    """A port that speaks TLS in front of another."""
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certified / "cert.pem", certified / "key.pem")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, other_writer), pass_on(other_reader, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secure) as listener:
        yield listener.sockets[0].getsockname()[1]


async def test_over_tls_only_a_server_with_the_right_certificate_is_spoken_to(tmp_path: Path, certified: Path) -> None:
    with OwnStore(tmp_path / "data", port=0, extra_args=QUICK) as server:
        login = server.url.partition("://")[2].rpartition("@")[0]
        async with behind_tls(server.port, certified) as port:
            url = f"rediss://{login}{'@' if login else ''}127.0.0.1:{port}"
            for query in (f"ssl_ca_certs={certified / 'cert.pem'}", "ssl_cert_reqs=none"):
                async with Store(f"{url}?{query}") as store:
                    assert await store.command("PING") == b"PONG"
            for query in ("", f"ssl_ca_certs={certified / 'none.pem'}"):
                async with Store(f"{url}?{query}") as store:
                    with pytest.raises(NoStore, match=r"CERTIFICATE_VERIFY_FAILED|No such file"):
                        await store.command("PING")
            async with Store(f"{url.replace('127.0.0.1', 'localhost')}?ssl_ca_certs={certified / 'cert.pem'}") as store:
                with pytest.raises(NoStore, match="ostname mismatch"):
                    await store.command("PING")


async def test_every_node_of_a_cluster_is_spoken_to_over_tls(tmp_path: Path, certified: Path) -> None:
    clustered = ("--cluster-enabled", "yes", "--cluster-port", "0")
    with OwnStore(tmp_path / "data", port=free_port(), extra_args=(*QUICK, *clustered)) as server:
        async with behind_tls(server.port, certified) as port:
            with redis.Redis(port=server.port or 0) as client:
                client.execute_command("CONFIG", "SET", "cluster-announce-port", port)
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            url = f"rediss+cluster://127.0.0.1:{port}"
            async with Store(f"{url}?ssl_ca_certs={certified / 'cert.pem'}") as store:
                assert [node.name for node in await store.nodes()] == [f"127.0.0.1:{port}"]
                assert await store.command("PING") == b"PONG"
            async with Store(url) as store:
                with pytest.raises(NoStore, match="CERTIFICATE_VERIFY_FAILED"):
                    await store.command("PING")


async def test_sentinels_and_their_server_are_spoken_to_over_tls(
    valkey: OwnStore, tmp_path: Path, certified: Path
) -> None:
    """A sentinel cannot look at a server behind TLS, but it names the one that it was told to watch."""
    with Sentinels(tmp_path / "sentinels", server=valkey.server) as sentinels:
        plain = int(sentinels.url.split("@")[1].split(",")[0].rpartition(":")[2])
        async with (
            behind_tls(sentinels.servers[0].port, certified) as server,
            behind_tls(plain, certified) as sentinel,
        ):
            with redis.Redis(port=plain, password=PASSWORD) as client:
                client.execute_command("SENTINEL", "MONITOR", "secure", "127.0.0.1", server, 2)
            url = f"rediss+sentinel://app:secret@127.0.0.1:{sentinel}/secure?sentinel_password={PASSWORD}"
            async with Store(f"{url}&ssl_ca_certs={certified / 'cert.pem'}") as store:
                assert await store.command("PING") == b"PONG"
            async with Store(url) as store:
                with pytest.raises(NoStore, match="CERTIFICATE_VERIFY_FAILED"):
                    await store.command("PING")
