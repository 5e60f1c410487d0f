"""Which file descriptors a piece of work has left open."""

from pathlib import Path

Descriptors = set[tuple[int, str]]


def open_files() -> Descriptors:
    """The file descriptors of this process: the number of each, and what it stands for.

    A socket has a number of its own in the kernel, so one that takes a free descriptor again is another.
    """
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add((int(entry.name), str(entry.readlink())))
        except FileNotFoundError:  # the directory that is read here, closed by now
            continue
    return found


def opened_since(before: Descriptors) -> Descriptors:
    """What is open now and was not then.

    A plain count would not do: what an earlier test left to the garbage collector, to a thread or to a
    child may close at any time, and the count is then short by what this test knows nothing of.
    """
    return open_files() - before
