"""Writing a page so that nobody else can read it: it tells as much as the log does."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def save_page(path: str, page: str) -> None:
    """Write a page: all of it or nothing, with mode 0600, in the place of what was there.

    A device or a pipe is written as it is. A link stays a link: what it points to is replaced.

    Args:
        path: of the file.
        page: its text.

    Raises:
        OSError: it cannot be written.
    """
    data = page.encode("utf-8")
    if Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
        Path(path).write_bytes(data)
    else:
        _replace(Path(os.path.realpath(path)), data)


def _replace(path: Path, data: bytes) -> None:
    descriptor, part = tempfile.mkstemp(prefix=".tidegate-", suffix=".part", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(part).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(part).unlink()
        raise
