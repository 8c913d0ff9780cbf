"""room: places that platforms of a process share, and a job that must have none beside it."""

from tailrace.consumers.slots import Room, Rooms


class Platform:
    """Counts how often it is called."""

    def __init__(self, process: Room) -> None:
        self.rooms = Rooms(process, Room(4), 4)
        self.rung = 0

    def ring(self) -> None:
        self.rung += 1

    def take(self) -> tuple[int, str]:
        return self.rooms.take(self.ring, 1 << 30)

    def answered(self, word: str) -> None:
        self.rooms.answered(word, self.ring)


def test_a_claim_tells_whether_its_process_runs_anything_else() -> None:
    process = Room(10)
    one, other = Platform(process), Platform(process)
    assert one.take() == (4, "none")
    assert other.take() == (4, "some")


def test_a_process_that_is_asked_to_empties_and_then_runs_one_job_alone() -> None:
    process = Room(10)
    one, other = Platform(process), Platform(process)
    one.take()
    other.take()
    other.answered("empty")
    one.rooms.give(4)
    assert one.take() == (0, "some"), "it takes nothing more"
    other.rooms.give(3)
    assert other.rung == 0
    other.rooms.give(1)
    assert other.rung == 1, "the process is empty"
    assert one.take() == (0, "some")
    assert other.take() == (4, "locked")
    other.rooms.give(3)
    other.answered("alone")
    assert (one.take()[0], other.take()[0]) == (0, 0)
    rung = one.rung
    other.rooms.give(1)
    assert one.rung == rung + 1
    assert one.take() == (4, "none")


def test_a_claim_that_locked_the_process_and_found_other_jobs_lets_others_in_again() -> None:
    process = Room(10)
    one, other = Platform(process), Platform(process)
    other.answered("empty")
    assert other.rung == 1, "it is empty already"
    assert other.take() == (4, "locked")
    assert one.take() == (0, "some")
    other.rooms.give(2)
    other.answered("")
    assert one.rung > 0
    assert one.take() == (4, "some")


def test_a_platform_that_comes_into_another_lane_brings_what_it_runs() -> None:
    process, one, other = Room(9), Room(3), Room(2)
    kurly, ably = Rooms(process, one, 9), Rooms(process, other, 9)
    assert kurly.take(lambda: None, 2)[0] == 2
    ably.take(lambda: None, 1)
    called: list[str] = []
    assert ably.take(lambda: None, 9)[0] == 1
    assert ably.take(lambda: called.append("ably"), 9)[0] == 0
    kurly.move(other)
    kurly.move(other)
    assert (process.free, one.free, other.free) == (5, 3, -2)
    kurly.give(2)
    assert (process.free, one.free, other.free) == (7, 3, 0)
    ably.give(2)
    assert (process.free, other.free, called) == (9, 2, ["ably"])
