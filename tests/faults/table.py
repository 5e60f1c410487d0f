"""The table: what can go wrong, and what must come of it. Each row is a test of `test_faults`."""

from typing import Final

from tests.faults.fault import LoopbackFault, MemoryFault
from tests.faults.handshakes import TLS_FAULTS
from tests.faults.machine import OTHERS, SOCKETS
from tests.faults.names import DNS_FAULTS, NAME_FAULTS
from tests.faults.peers import PEER_FAULTS

MEMORY_FAULTS: Final[list[MemoryFault]] = [*PEER_FAULTS, *TLS_FAULTS, *NAME_FAULTS, *OTHERS]
LOOPBACK_FAULTS: Final[list[LoopbackFault]] = [*DNS_FAULTS, *SOCKETS]
