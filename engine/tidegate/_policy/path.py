"""Whether all servers agree where a path leads: what a request rule with a star has to know."""

import re
from typing import Final

MAX_DECODINGS: Final = 8
"""How often a path may be percent-encoded over again. Whoever means a path does it once, proxies twice."""

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
# In any of its forms: a backslash, a control character (some servers cut a path off there, some drop it), and
# the escapes of IIS (`%u002e`), which no standard knows.
_NEVER_PLAIN: Final = re.compile(r"\\|[\x00-\x1f\x7f-\x9f]|%u[0-9a-f]{4}", re.IGNORECASE)
# A segment of dots, or what is one for a server that trims blanks, or cuts parameters (`..;`, Tomcat) or what
# looks like the begin of a query or fragment once it is decoded.
_DOT_SEGMENT: Final = re.compile(r"[/\\]\s*\.{1,2}(?:[/\\;?#\s]|\Z)")
# What Unicode's compatibility forms (NFKC) and the "best fit" of Windows code pages turn into the characters
# of those segments. They are harmless in a name, where many stand, so they count beside dots alone.
_BEST_FIT: Final = {
    **{0xFEE0 + ord(character): character for character in "./\\;?#"},
    **dict.fromkeys((0x2024, 0xFE52), "."),
    **dict.fromkeys((0x2025, 0xFE30), ".."),
    **dict.fromkeys((0x2044, 0x2215, 0x29F8), "/"),
    **dict.fromkeys((0x00A5, 0x20A9, 0x2216, 0x29F5, 0xFE68), "\\"),
    **dict.fromkeys((0x037E, 0xFE14, 0xFE54), ";"),
    **dict.fromkeys((0xFE16, 0xFE56), "?"),
    0xFE5F: "#",
}


def is_ambiguous(path: str) -> bool:
    """True if servers disagree where a path leads.

    Some decode it once, some twice or more often, before or after they resolve its dot segments and look who
    may go there. So it is looked at in every form that it takes until there is nothing left to decode. (The
    order of decoding makes no difference to what comes out: two escapes never overlap.)

    Args:
        path: of a `URL`: ASCII, without the dot segments that everybody sees.

    Returns:
        True if one of its forms is no UTF-8 (an overlong `%c0%ae` is a dot to old decoders), has a slash more
        than it has, a backslash, a control character, a `%uXXXX`, or a dot segment in a disguise; or if it
        takes more than `MAX_DECODINGS` to decode, so that the work is in proportion to its length.
    """
    slashes = path.count("/")
    form = path.encode()
    for _ in range(MAX_DECODINGS + 1):
        try:
            text = form.decode()
        except UnicodeDecodeError:
            return True
        if text.count("/") > slashes or _NEVER_PLAIN.search(text) or _has_dot_segment(text):
            return True
        encoded, form = form, _decoded(form)
        if form == encoded:
            return False
    return True


def _decoded(form: bytes) -> bytes:
    return _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), form)


def _has_dot_segment(text: str) -> bool:
    return _DOT_SEGMENT.search(text.translate(_BEST_FIT)) is not None
