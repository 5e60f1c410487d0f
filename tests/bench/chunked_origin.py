"""An origin for one row: content in chunks of exactly 64 KiB, which nginx can not be told to make.

`python -m tests.bench.chunked_origin FD` serves on the listening socket that it inherits as FD.
"""

import socket
import sys
import threading
from typing import Final

from tests.bench.works import LARGE, SMALL

CHUNK: Final = 64 * 1024
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nServer: chunks\r\nContent-Type: application/octet-stream\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def chunked(content: bytes) -> bytes:
    """A whole response."""
    pieces = [content[start : start + CHUNK] for start in range(0, len(content), CHUNK)]
    return _HEAD + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])


_LARGE: Final = chunked(bytes(range(256)) * (LARGE // 256))
_SMALL: Final = chunked(bytes(SMALL))


def serve(connection: socket.socket) -> None:
    """Answer requests without content until the client goes."""
    with connection, connection.makefile("rb") as requests:
        try:
            while request_line := requests.readline():
                while requests.readline() not in (b"\r\n", b""):
                    pass
                connection.sendall(_LARGE if b"/large" in request_line else _SMALL)
        except ConnectionError:
            return


def main() -> None:
    """Serve until killed."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
