"""Runs one function of a test inside "agent": `python -m tests.e2e.call MODULE:FUNCTION`.

Its argument comes on stdin and its result goes to stdout, both JSON.
"""

import importlib
import inspect
import json
import os
import sys
from functools import partial

import trio

from tests.e2e import world
from tests.support.isolation import require_isolation


def call(target: str, argument: object) -> object:
    """What a function answers, awaited on trio if it is asynchronous. It must be at the top of its module."""
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    if inspect.iscoroutinefunction(function):
        return trio.run(partial(function, argument))
    return function(argument)


def main() -> None:
    """Prove where this is, then call; what the function prints goes to stderr, for stdout is taken."""
    require_isolation(json.loads(os.environ["TIDEGATE_E2E_OUTSIDE"]), [world.AGENT_INTERFACE])
    stdout, sys.stdout = sys.stdout, sys.stderr
    result = call(sys.argv[1], json.loads(sys.stdin.read()))
    stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
