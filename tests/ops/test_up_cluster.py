"""`up --cluster 3`: the same with three primaries on this machine."""

import json
from pathlib import Path

from tests.ops.commands import tailrace
from tests.ops.up_process import Up


def test_up_runs_a_cluster_of_its_own_and_every_command_finds_it(tmp_path: Path) -> None:
    up = Up(tmp_path / "data", "kurly", "--cluster", "3")
    data = ("--data", str(up.data))
    try:
        up.wait_until_ready()
        assert "store      a cluster of 3 " in up.said()
        done = tailrace("submit", "kurly", "drill", '{"steps": 1, "seconds": 0}', "--follow", *data)
        assert done.returncode == 0, done.stderr
        placed = tailrace("platforms", "--nodes", "--json", *data)
        nodes = {each["platform"]: each["node"] for each in json.loads(placed.stdout)}
        assert nodes["kurly"] != nodes["ably"]
        assert nodes["extract"] == nodes["url_extraction"], "platforms of a lane share a slot"
        checked = tailrace("doctor", *data)
        assert checked.returncode == 0, checked.stdout
        assert checked.stdout.count("a trip takes") == 3
    finally:
        up.clean_up()


def test_a_cluster_that_cannot_be_is_refused(tmp_path: Path) -> None:
    refused = tailrace("up", "--cluster", "2", "--data", str(tmp_path / "data"))
    assert (refused.returncode, refused.stderr.strip()) == (78, "tailrace: --cluster 2: it must be from 3 to 16")
