"""Parts of a page: together the whole, never cut in a character or a link."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_tools.pages import cut_page
from tidegate_tools.pages.paging import MAX_LINK


def parts(text: str, length: int, max_bytes: int | None = None) -> list[str]:
    found, index = [], 0
    while True:
        part = cut_page(text, index, length, max_bytes)
        found.append(part.text)
        if part.next_index is None:
            return found
        assert part.next_index > index
        index = part.next_index


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abcdef", 3, ["abc", "def"]),
        ("abcdef", 6, ["abcdef"]),
        ("abcdef", 9, ["abcdef"]),
        ("ab [c](http://d/) e", 6, ["ab ", "[c](http://d/)", " e"]),
        ("ab [c](http://d/) e", 17, ["ab [c](http://d/)", " e"]),
        ("ab [c](http://d/) e", 16, ["ab ", "[c](http://d/) e"]),
        ("![a](b) c", 3, ["![a](b)", " c"]),
        ("[![a](b)](c) d", 4, ["[![a](b)](c)", " d"]),
        ("[a](b_(c)) d", 8, ["[a](b_(c))", " d"]),
        ("a <https://b.example/> c", 9, ["a ", "<https://b.example/>", " c"]),
        ("see https://b.example/c d", 9, ["see ", "https://b.example/c", " d"]),
        ("[a] (b) c", 3, ["[a]", " (b", ") c"]),
        ("e\u0301e\u0301", 1, ["e\u0301", "e\u0301"]),
        ("ae\u0301", 2, ["a", "e\u0301"]),
        ("a\U0001f468\u200d\U0001f469b", 2, ["a", "\U0001f468\u200d\U0001f469", "b"]),
        ("\U0001f44d\U0001f3fd!", 1, ["\U0001f44d\U0001f3fd", "!"]),
        ("a\r\nb", 2, ["a", "\r\n", "b"]),
    ],
)
def test_parts(text: str, length: int, expected: list[str]) -> None:
    assert parts(text, length) == expected


@pytest.mark.parametrize(("start", "text"), [(0, "abc"), (2, "c"), (3, ""), (99, "")])
def test_start(start: int, text: str) -> None:
    assert cut_page("abc", start, 10) == (cut_page(text, 0, 10))


@pytest.mark.parametrize(
    ("text", "max_bytes", "expected"),
    [
        ("\u65e5\u672c\u8a9e", 6, ["\u65e5\u672c", "\u8a9e"]),
        ("\u65e5\u672c\u8a9e", 5, ["\u65e5", "\u672c", "\u8a9e"]),
        ("abc", 4, ["abc"]),
    ],
)
def test_bytes(text: str, max_bytes: int, expected: list[str]) -> None:
    assert parts(text, 99, max_bytes) == expected


def test_a_link_without_end_is_cut() -> None:
    """Past `MAX_LINK` it is no link any more; else one link could be a page of a megabyte."""
    text = f"[a](http://b/{'c' * 3 * MAX_LINK})"
    assert all(len(part) <= 100 for part in parts(text, 100))


@given(
    st.lists(
        st.sampled_from(["word ", "[a b](http://c/d)", "![x](y)", "\u65e5\n", "[", "](", ")", "e\u0301"])
    ),
    st.integers(1, 40),
)
def test_together_they_are_the_whole(pieces: list[str], length: int) -> None:
    text = "".join(pieces)
    found = parts(text, length)
    assert "".join(found) == text
    links = [match.span() for match in re.finditer(r"\[a b\]\(http://c/d\)", text)]
    cuts = [sum(map(len, found[: number + 1])) for number in range(len(found) - 1)]
    # Where loose brackets stand around, what is a link is a matter of opinion.
    if not {"[", "](", ")"} & set(pieces):
        assert not [cut for cut in cuts for start, end in links if start < cut < end]


@pytest.mark.parametrize(
    "hostile",
    ["[" * 50_000, "[a](" * 20_000, "![" * 30_000, "\u0301" * 50_000, "](" * 30_000, "[[a](b" * 9_000],
)
def test_hostile_text_is_cut_quickly(hostile: str) -> None:
    import time

    started = time.perf_counter()
    for index in range(0, 20_000, 2_000):
        cut_page(hostile, index, 3_000)
    assert time.perf_counter() - started < 0.5
