"""What goes over the pipes between the program and a converter process: frames with a length in front."""

import json
import struct
from dataclasses import asdict, dataclass
from typing import Final

LENGTH: Final = struct.Struct(">I")

MAX_FRAME: Final = 16 * 1024 * 1024
"""Bytes in one frame. A converter that makes more of a page has failed: its links may share a long base."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a converter process is to do with the content that follows.

    Attributes:
        step: one of `worker.STEPS`.
        charset: the encoding of the content.
        url: what relative links are relative to.
        timeout: seconds, after which the process ends itself a little later if nobody has ended it.
    """

    step: str
    charset: str
    url: str
    timeout: float

    def encode(self) -> bytes:
        """The job as the content of a frame."""
        return json.dumps(asdict(self)).encode()


def frame(content: bytes) -> bytes:
    """The content with its length in front."""
    return LENGTH.pack(len(content)) + content
