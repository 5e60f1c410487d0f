"""What a test server itself does wrong, while it serves others."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_logger = logging.getLogger("tidegate.testing")

_KEPT = 100


class Failures:
    """Keeps an error of the server's own from ending more than the connection or datagram that it met.

    Whoever runs the server as a program finds it on standard error; a test looks at `errors`.

    Attributes:
        errors: the newest.
    """

    def __init__(self) -> None:
        self.errors: deque[Exception] = deque(maxlen=_KEPT)

    @contextmanager
    def kept(self, where: str) -> Iterator[None]:
        """Log an exception of the block at ERROR under `tidegate.testing`, keep it, and go on."""
        try:
            yield
        except Exception as error:
            self.errors.append(error)
            _logger.exception("%s: the fault is this server's, which goes on", where)
