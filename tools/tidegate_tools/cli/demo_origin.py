"""The far side of `tidegate demo`, a process of its own: the hostile origin of `tidegate.testing`.

    python -m tidegate_tools.cli.demo_origin NAME

It listens on three free ports of 127.0.0.1: plain, with TLS for NAME, and with TLS for NAME by an authority
that nobody has heard of. One line of JSON tells the ports and the first authority; it stops with standard
input.
"""

import json
import sys

import trio

from tidegate.testing.origin import Listener, issue_tls, open_origin, run_until_told


async def _run(name: str) -> None:
    authority, known = issue_tls(name)
    _, unknown = issue_tls(name)
    async with open_origin(Listener(), Listener(tls=known), Listener(tls=unknown)) as origin:
        plain, tls, untrusted = origin.ports
        ready = {
            "plain": plain,
            "tls": tls,
            "untrusted": untrusted,
            "ca": authority.cert_pem.bytes().decode(),
        }
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await run_until_told(exit_with_stdin=True)


if __name__ == "__main__":
    trio.run(_run, sys.argv[1])
