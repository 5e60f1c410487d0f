"""A hostile HTTP/1.1 origin: each way in which a server can hurt a client, chosen by the path of the request.

In a test, over real sockets::

    async with open_origin(Listener(), Listener(tls=context)) as origin:
        plain, secure = origin.ports
        ...                              # fetch http://127.0.0.1:{plain}/drip-content?size=10&interval=0.5
    assert origin.requests[0].target == "/drip-content?size=10&interval=0.5"

or over one end of `trio.testing.memory_stream_pair()`, where a fake clock makes every interval exact::

    nursery.start_soon(origin.serve_stream, server_end)

As a program, which prints one line of JSON when it is ready::

    python -m tidegate.testing.origin --bind 127.0.0.1:0 --tls-bind [::1]:0 --tls-name origin.example

`BEHAVIOURS` is the table of paths; `GET /` answers with it. Query values are percent-decoded to bytes (a plus
stays a plus), so a `Location` may hold any bytes at all. `delay` (seconds before the answer) works on every
path, and these work wherever the origin makes a head, so on all but `/raw` and `/hold`:

    status=N  reason=TEXT     instead of the status line's own
    field=Name: value         one more field; may be repeated, and may repeat a field that is there already
    connection=close          says so, and closes after the response

Where a path takes `then`, its values are: `keep` the connection, `close` it (over TLS with close_notify),
`cut` it (over TLS without), `reset` it, `half-close` it and read on, `hold` it and read on, `stall` it and
read no more. Which path takes `count` (a number or `endless`) and `interval` (seconds before each piece) the
table says. A value that makes no sense, or a name that the path does not know, is answered with 400 before
anything else; names of one letter are free, to tell requests apart. An error of the origin's own ends one
connection: it is logged at ERROR under `tidegate.testing`, and kept in `Origin.errors`. Needs Linux: resets
and stalls ask the kernel about a socket.

How it is made, from the outside in:

    listeners     what is listened on, and certificates for it
    server        the origin: its connections, and what it has seen
    handshake     TLS, good or spoilt
    connection    one connection and every way to end it; `kernel` is what only Linux knows of it
    exchange      one request and the means to answer it; its values: `request`, `parameters`, `content`
    behaviours    the table, and one module for each way to behave
    __main__      the program
"""

from tidegate.testing._background import open_background as open_background
from tidegate.testing._program import parse_address as parse_address
from tidegate.testing._program import run_until_told as run_until_told
from tidegate.testing.origin.behaviours import BEHAVIOURS as BEHAVIOURS
from tidegate.testing.origin.behaviours.codings import compress as compress
from tidegate.testing.origin.connection import Connection as Connection
from tidegate.testing.origin.content import content_of as content_of
from tidegate.testing.origin.exchange import Behaviour as Behaviour
from tidegate.testing.origin.exchange import Exchange as Exchange
from tidegate.testing.origin.listeners import HandshakeFault as HandshakeFault
from tidegate.testing.origin.listeners import Listener as Listener
from tidegate.testing.origin.listeners import issue_tls as issue_tls
from tidegate.testing.origin.parameters import BadParameterError as BadParameterError
from tidegate.testing.origin.request import ReceivedRequest as ReceivedRequest
from tidegate.testing.origin.server import Origin as Origin
from tidegate.testing.origin.server import open_origin as open_origin
