"""Targets for atheris: each a module with `check(data)` and `seeds()`, its invariant in its first line.

    python -m tests.fuzz.targets --seconds 60            # each in turn, in a process of its own
    python -m tests.fuzz.targets --only url head

needs the dependency group `fuzz`. The modules themselves do not: `tests/fuzz/test_targets.py` runs them over
their seeds and over `found/`, where what a run has found is kept, one file an input, in a folder a target.
"""

from typing import Final

NAMES: Final = ("url", "head", "content", "decoders", "front_matter", "configuration")
