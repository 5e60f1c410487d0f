"""The examples of the documentation, found by the comment in front of them."""

import re

from tests.support.data import ROOT

_EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def examples(page: str) -> dict[str, str]:
    """The marked code blocks of a page, by name."""
    return dict(_EXAMPLE.findall((ROOT / page).read_text(encoding="utf-8")))
