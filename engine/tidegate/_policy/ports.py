"""Ports: the defaults of our two schemes, and the ports that no fetch may use by accident."""

from collections.abc import Mapping
from typing import Final

MAX_PORT: Final = 65_535

DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}

# WHATWG Fetch, "bad port" (https://fetch.spec.whatwg.org/#port-blocking), as of 2026-07-02: 83 entries.
# They belong to protocols that can be made to act on the text of an HTTP request. Ports of HTTP services
# (6379, 9200, 10250, ...) are not on it; what protects those is the check of the address. Port 0 is listed
# as in the standard, though `parse_url` has refused it before anyone asks (D-10, D-11).
# fmt: off
BAD_PORTS: Final = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})
# fmt: on
