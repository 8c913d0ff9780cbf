"""A port that several processes share is kept by their parent: no other process gets it, and of two only one."""

import asyncio
import socket
import sys

import pytest

from tailrace.gateway.server import bind, bind_beside, hold
from tests.gateway.gateways import CHECKOUT, environment
from tests.support.ports import free_port


async def test_of_two_that_start_together_one_gets_the_port(valkey_url: str) -> None:
    port = str(free_port())
    command = (sys.executable, "-m", "tailrace.gateway", "--port", port, "--processes", "2")
    both = [
        await asyncio.create_subprocess_exec(
            *command, cwd=CHECKOUT, env=environment(valkey_url), stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    ends = {asyncio.create_task(each.communicate()): each for each in both}
    try:
        done, pending = await asyncio.wait(ends, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(pending)) == (1, 1)
        (end,) = done
        assert ends[end].returncode == 1
        said = end.result()[1].decode()
        assert said.startswith(f"tailrace: cannot listen on 127.0.0.1 port {port}")
        assert said.count("\n") == 1
    finally:
        for each in both:
            if each.returncode is None:
                each.terminate()
        await asyncio.gather(*ends)
    assert sorted(each.returncode or 0 for each in both) == [0, 1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_port_is_kept_while_nobody_listens(host: str) -> None:
    first = bind(host, 0)
    address = first.getsockname()
    second, third = bind(host, address[1]), bind(host, address[1])
    with hold(first) as holder:
        assert holder.getsockname() == address
        with pytest.raises(OSError, match="in use"):
            hold(second)  # another parent that was as early
        with third, pytest.raises(OSError, match="in use"):
            third.listen()  # and one that is alone
        for _ in range(2):  # the second time all of the first ones are dead
            with bind_beside(holder) as one, bind_beside(holder) as other:
                one.listen()
                other.listen()
            with pytest.raises(OSError, match="in use"):
                bind(host, address[1])
        if host != "::1":
            with pytest.raises(OSError, match="in use"):
                bind("127.0.0.1", address[1])  # the same for its clients, whatever its name
        with socket.socket(holder.family) as client, pytest.raises(ConnectionRefusedError):
            client.connect(address)
    bind(host, address[1]).close()
