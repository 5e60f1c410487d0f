"""Media types, charsets, kinds, strict JSON and cuts, by the WHATWG tables and tables of our own."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.data import suite_json
from tidegate._policy.content import (
    MAX_JSON_DEPTH,
    Charset,
    ContentKind,
    MediaType,
    charset_of,
    combine_content_type,
    cut_utf8,
    decode_label,
    decode_text,
    is_utf8,
    kind_of,
    parse_json,
    parse_media_type,
)

# Media types ---------------------------------------------------------------------------------------


def _encoding_of(media_type: MediaType | None) -> str | None:
    assert media_type is not None
    return decode_label(media_type.parameters.get("charset", ""))


def test_wpt_combined_content_types() -> None:
    cases = suite_json("wpt-h1/content-types.json")
    assert len(cases) == 16
    for case in cases:
        found = combine_content_type(case["input"])
        assert (str(found), _encoding_of(found)) == (case["mimeType"], case["encoding"]), case


def test_wpt_charset_parameters() -> None:
    table = suite_json("wpt-h1/mime-charset.json")
    assert len(table["cases"]) == 27
    for case in table["cases"]:
        assert _encoding_of(parse_media_type(case["input"])) == case["encoding"], case


def test_wpt_invalid_media_types() -> None:
    inputs = suite_json("wpt-h1/mime-charset.json")["invalid_mime_types"]
    assert len(inputs) == 11
    assert [text for text in inputs if parse_media_type(text) is not None] == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Text/HTML", "text/html"),
        (" \t\r\ntext/html\n ", "text/html"),
        ("text/html ; Charset=UTF-8", "text/html;charset=UTF-8"),
        ("a/b;x=1;X=2", "a/b;x=1"),
        ("a/b;x=", "a/b"),
        ("a/b;x", "a/b"),
        ("a/b;=1", "a/b"),
        ('a/b;x=""', 'a/b;x=""'),
        ('a/b;x="";x=2', 'a/b;x=""'),
        ('a/b;x="1;y=2";z=3', 'a/b;x="1;y=2";z=3'),
        ('a/b;x="1"ignored;z=3', "a/b;x=1;z=3"),
        ('a/b;x="1', "a/b;x=1"),
        ('a/b;x="1\\', 'a/b;x="1\\\\"'),
        ('a/b;x="\\"\\\\"', 'a/b;x="\\"\\\\"'),
        ("a/b;x=1 2\t", 'a/b;x="1 2"'),
        ("a/b;x=\u00ff;y=\u0100;z=\x07;t=\t1", 'a/b;x="\u00ff";t="\t1"'),
        ("a/b;\u212aey=1;key=2", "a/b;key=2"),
        ("a/b;x=1;;; ;y=2;", "a/b;x=1;y=2"),
    ],
)
def test_media_types_are_read_and_written_as_the_standard_says(text: str, written: str) -> None:
    found = parse_media_type(text)
    assert str(found) == written
    assert parse_media_type(written) == found


@pytest.mark.parametrize(
    "text", ["/", "a/", "/b", "a b/c", "a/b c", "a;/b", "a/b,c/d", "\u00e4/b", "a/\u212a"]
)
def test_what_is_no_media_type(text: str) -> None:
    assert parse_media_type(text) is None


def test_media_types_are_values() -> None:
    parameters = {"charset": "utf-8"}
    media_type = MediaType("text/html", parameters)
    parameters["charset"] = "changed afterwards"
    assert media_type == parse_media_type("text/html;charset=utf-8")
    assert hash(media_type) == hash(parse_media_type("text/html;charset=utf-8"))
    assert media_type != MediaType("text/html")
    with pytest.raises(TypeError):
        media_type.parameters["charset"] = "changed"  # type: ignore[index]  # the point of the test


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([], None),
        ([""], None),
        (["nonsense", "also"], None),
        (["*/*"], None),
        (["text/html, text/plain"], "text/plain"),
        (["text/html;charset=gbk", "nonsense", "text/html"], "text/html;charset=gbk"),
        (["text/html;charset=gbk", "text/html;x=1"], "text/html;x=1;charset=gbk"),
        (["text/html", "text/html"], "text/html"),
        (['a/b;x="1,2"', "nonsense"], 'a/b;x="1,2"'),
        (['a/b;x="\\",c/d'], 'a/b;x="\\",c/d"'),
        (['a/b;x="\\'], 'a/b;x="\\\\"'),
    ],
)
def test_combined_media_types(values: list[str], written: str | None) -> None:
    found = combine_content_type(values)
    assert (None if found is None else str(found)) == written


@given(st.lists(st.text(alphabet='ab/;=",\\ \t\u00e9*', max_size=30), max_size=4))
def test_any_field_values_combine_to_a_media_type_that_survives_writing(values: list[str]) -> None:
    found = combine_content_type(values)
    assert found is None or parse_media_type(str(found)) == found


# Labels and decoders -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "encoding"),
    [
        ("utf-8", "UTF-8"),
        ("UTF8", "UTF-8"),
        (" \t\n\f\rutf-8\r ", "UTF-8"),
        ("iso-8859-1", "windows-1252"),
        ("Latin1", "windows-1252"),
        ("us-ascii", "windows-1252"),
        ("iso-8859-9", "windows-1254"),
        ("iso-8859-11", "windows-874"),
        ("tis-620", "windows-874"),
        ("gb2312", "GBK"),
        ("big5-hkscs", "Big5"),
        ("sjis", "Shift_JIS"),
        ("ks_c_5601-1987", "EUC-KR"),
        ("logical", "ISO-8859-8-I"),
        ("visual", "ISO-8859-8"),
        ("koi8-ru", "KOI8-U"),
        ("utf-16", "UTF-16LE"),
        ("ucs-2", "UTF-16LE"),
        ("unicodefffe", "UTF-16BE"),
        ("hz-gb-2312", "replacement"),
        ("iso-2022-kr", "replacement"),
        ("x-user-defined", "x-user-defined"),
        # Python knows all of these, the web none of them.
        *(
            (label, None)
            for label in ("utf-7", "utf-32", "cp037", "cp437", "utf-8-sig", "utf_8", "latin-1", "u8")
        ),
        *(
            (label, None)
            for label in ("unicode_escape", "raw_unicode_escape", "idna", "punycode", "rot13", "hex")
        ),
        *(
            (label, None)
            for label in ("base64", "zlib", "mbcs", "undefined", "utf-16-le", "big5hkscs", "cp949")
        ),
        *((label, None) for label in ("", " ", "utf-8,utf-8", '"utf-8"', "utf -8", "\u00a0utf-8", "\vutf-8")),
        ("\u212aoi8-r", None),  # the Kelvin sign is no k
    ],
)
def test_labels_are_those_of_the_web_and_no_others(label: str, encoding: str | None) -> None:
    assert decode_label(label) == encoding


SINGLE_BYTE_LABELS = [
    *(
        "ibm866",
        "iso-8859-2",
        "iso-8859-3",
        "iso-8859-4",
        "iso-8859-5",
        "iso-8859-6",
        "iso-8859-7",
        "iso-8859-8",
    ),
    *(
        "iso-8859-8-i",
        "iso-8859-10",
        "iso-8859-13",
        "iso-8859-14",
        "iso-8859-15",
        "iso-8859-16",
        "koi8-r",
        "koi8-u",
    ),
    *(
        "macintosh",
        "windows-874",
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "windows-1253",
        "windows-1254",
    ),
    *("windows-1255", "windows-1256", "windows-1257", "windows-1258", "x-mac-cyrillic", "x-user-defined"),
]
MULTI_BYTE_LABELS = [
    *(
        "utf-8",
        "utf-16le",
        "utf-16be",
        "gbk",
        "gb18030",
        "big5",
        "euc-jp",
        "iso-2022-jp",
        "shift_jis",
        "euc-kr",
    ),
]


def _text(data: bytes, label: str) -> str:
    encoding = decode_label(label)
    assert encoding is not None
    return decode_text(data, Charset(encoding, "field"))


@pytest.mark.parametrize("label", SINGLE_BYTE_LABELS)
def test_single_byte_encodings_keep_ascii_and_give_one_character_a_byte(label: str) -> None:
    text = _text(bytes(range(256)), label)
    assert len(text) == 256
    assert text[:128] == bytes(range(128)).decode("ascii")


@pytest.mark.parametrize("label", [*SINGLE_BYTE_LABELS, *MULTI_BYTE_LABELS, "iso-2022-cn"])
@given(data=st.binary(max_size=40))
def test_no_bytes_make_a_decoder_raise_or_give_surrogates(label: str, data: bytes) -> None:
    _text(data, label).encode("utf-8")


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        # Windows-1252 has no gaps on the web: the five bytes that Python leaves undefined are C1 controls.
        (
            b"\x80 \x81\x8d\x8f\x90\x9d \x93\xe9\x94",
            "iso-8859-1",
            "\u20ac \x81\x8d\x8f\x90\x9d \u201c\u00e9\u201d",
        ),
        (b"\xaa\xd2\xff\x81", "windows-1253", "\ufffd\ufffd\ufffd\x81"),
        (b"\xca\xd9", "windows-1255", "\u05ba\ufffd"),
        (b"\xae\xbe\xa4", "koi8-u", "\u045e\u040e\u0454"),
        (b"\xff", "x-mac-cyrillic", "\u20ac"),
        (b"\xa4", "iso-8859-15", "\u20ac"),
        (b"a\x7f\x80\xff", "x-user-defined", "a\x7f\uf780\uf7ff"),
        (b"\xc4\xe3\xba\xc3", "gb2312", "你好"),
        (b"\xa7A\xa6n", "big5", "你好"),
        (b"\x82\xb1\x87\x40", "shift_jis", "こ①"),
        (b"\xa4\xb3", "euc-jp", "こ"),
        (b"\x1b$B$3\x1b(B.", "iso-2022-jp", "こ."),
        (b"\xc7\xd1\x81\x41", "euc-kr", "한갂"),
        (b"\x60\x4f\x7d\x59", "utf-16", "你好"),
        (b"\x4f\x60\x59\x7d\x4f", "utf-16be", "你好\ufffd"),
        (b"a\x80\xe2\x82b\xf0\x9f\x98\x80", "utf-8", "a\ufffd\ufffdb😀"),
        (b"\xed\xa0\x80", "utf-8", "\ufffd\ufffd\ufffd"),
        # A lead byte does not swallow the mark-up behind it.
        (b"\x81<", "shift_jis", "\ufffd<"),
        (b"\xff<", "big5", "\ufffd<"),
        # The replacement encoding: nothing that was hidden becomes visible, nothing is lost unseen.
        (b"<script>", "hz-gb-2312", "\ufffd"),
        (b"", "hz-gb-2312", ""),
    ],
)
def test_decoded_text(data: bytes, label: str, text: str) -> None:
    assert _text(data, label) == text


# Which charset -------------------------------------------------------------------------------------

HTML = "text/html"


@pytest.mark.parametrize(
    ("field", "data", "encoding", "source"),
    [
        (None, b"", "UTF-8", "default"),
        (None, b"<meta charset=gbk>", "UTF-8", "default"),
        (None, b"\xef\xbb\xbfx", "UTF-8", "bom"),
        ("text/plain", b"<meta charset=gbk>", "UTF-8", "default"),
        ("application/json", b'<?xml encoding="gbk"?>', "UTF-8", "default"),
        # A byte order mark beats the field, the field beats the document.
        ("text/html;charset=gbk", b"\xef\xbb\xbf<meta charset=big5>", "UTF-8", "bom"),
        ("text/html;charset=gbk", b"\xfe\xff\0<", "UTF-16BE", "bom"),
        ("text/html;charset=gbk", b"\xff\xfe<\0", "UTF-16LE", "bom"),
        ("text/html;charset=gbk", b"<meta charset=big5>", "GBK", "field"),
        ("text/html;charset=iso-8859-1", b"", "windows-1252", "field"),
        ("text/html;charset=utf-16", b"", "UTF-16LE", "field"),
        ("text/html;charset=x-user-defined", b"", "x-user-defined", "field"),
        ("text/html;charset=hz-gb-2312", b"", "replacement", "field"),
        # A label the web does not know counts as absent.
        ("text/html;charset=utf-7", b"<meta charset=big5>", "Big5", "meta"),
        ("text/html;charset=unicode_escape", b"", "UTF-8", "default"),
        ("application/xml", b'<?xml version="1.0" encoding="iso-8859-2"?>', "ISO-8859-2", "meta"),
        ("application/xhtml+xml", b"<?xml version='1.0' encoding = 'gbk' ?>", "GBK", "meta"),
        ("image/svg+xml", b"<meta charset=gbk>", "UTF-8", "default"),
    ],
)
def test_bom_then_field_then_document_then_utf8(
    field: str | None, data: bytes, encoding: str, source: Any
) -> None:
    media_type = None if field is None else parse_media_type(field)
    assert charset_of(media_type, data) == Charset(encoding, source)


@pytest.mark.parametrize(
    ("document", "encoding"),
    [
        ("<meta charset=gbk>", "GBK"),
        ("<META\tCharSet = 'GBK' >", "GBK"),
        ('<!doctype html><html lang="a>b"><head><title>t</title><meta charset="gbk">', "GBK"),
        ("<meta/charset=gbk>", "GBK"),
        ("<meta name=x charset=gbk>", "GBK"),
        ("<meta charset=gbk charset=big5>", "GBK"),
        ("<meta charset=nonsense><meta charset=gbk>", "GBK"),
        ("< <3 <meta charset=gbk>", "GBK"),
        ("<meta =charset=big5 charset=gbk>", "GBK"),
        ("<meta x = charset=gbk>", None),
        ("<meta charset>", None),
        ("<meta charset >", None),
        ("<meta charset=>", None),
        ('<meta charset="">', None),
        ("<meta charset=gbk", None),
        ("<meta charset=gb", None),
        ("<meta charset=", None),
        ("<meta charset", None),
        ("<meta charset='gbk>", None),
        ("<meta ", None),
        ("<meta", None),
        ("<metadata charset=gbk>", None),
        ("<metä charset=gbk>", None),
        ("charset=gbk", None),
        # What must not be taken for the document's own word.
        ("<!-- <meta charset=gbk> -->", None),
        ("<!-- <meta charset=gbk> --><meta charset=big5>", "Big5"),
        ("<!--><meta charset=big5>", "Big5"),
        ("<!-- <meta charset=gbk>", None),
        ("<a title='<meta charset=gbk>'>", None),
        ("<a title='<meta charset=gbk>'><meta charset=big5>", "Big5"),
        ("</a title='<meta charset=gbk>'><meta charset=big5>", "Big5"),
        ("<a title='<meta charset=gbk>", None),
        ("<?php <meta charset=gbk>", None),
        ("<?php ?><meta charset=gbk>", "GBK"),
        ("</ <meta charset=gbk><meta charset=big5>", "Big5"),
        ("<!x", None),
        # Read as ASCII, so it is no UTF-16; and x-user-defined is nobody's page.
        ("<meta charset=utf-16>", "UTF-8"),
        ("<meta charset=utf-16be>", "UTF-8"),
        ("<meta charset=x-user-defined>", "windows-1252"),
        ("<meta charset=utf-7>", None),
        # The older form needs both attributes, in any order.
        ('<meta http-equiv="Content-Type" content="text/html; charset=gbk">', "GBK"),
        ("<meta content='text/html; CHARSET = \"gbk\"' http-equiv=content-type>", "GBK"),
        ("<meta http-equiv=content-type content='a; charset; charset=gbk; b'>", "GBK"),
        ("<meta http-equiv=content-type content=\"charset='gbk'\">", "GBK"),
        ('<meta http-equiv=content-type content="charset=\'gbk; charset=big5">', None),
        ("<meta http-equiv=content-type content='text/html'>", None),
        ("<meta http-equiv=content-type>", None),
        ("<meta content='text/html; charset=gbk'>", None),
        ("<meta http-equiv=refresh content='text/html; charset=gbk'>", None),
        ("<meta http-equiv=content-type content='a; charset=gbk' charset=big5>", "Big5"),
        ("<meta charset=nonsense http-equiv=content-type content='a; charset=gbk'>", None),
        # XHTML sent as HTML.
        ('<?xml version="1.0" encoding="gbk"?><p>', "GBK"),
        ('<?xml version="1.0" encoding="gbk"?><meta charset=big5>', "Big5"),
        ('<?xml version="1.0" encoding="utf-16"?>', "UTF-8"),
        ("<\0?\0x\0m\0l\0", "UTF-16LE"),
        ("\0<\0?\0x\0m\0l", "UTF-16BE"),
        ("<?xml encoding='g bk'?>", None),
        ("<?xml encoding='gbk\"?>", None),
        ("<?xml encoding='gbk'", None),
        ("<?xml?><p encoding='gbk'>", None),
        (" <?xml encoding='gbk'?>", None),
    ],
)
def test_what_a_document_says_of_itself(document: str, encoding: str | None) -> None:
    """HTML 13.2.3.2, the prescan."""
    found = charset_of(MediaType(HTML), document.encode("latin-1"))
    assert found == (Charset(encoding, "meta") if encoding else Charset("UTF-8", "default"))


@pytest.mark.parametrize(("padding", "source"), [(1024 - 18, "meta"), (1024 - 17, "default")])
def test_only_the_first_1024_bytes_are_searched(padding: int, source: str) -> None:
    assert charset_of(MediaType(HTML), b" " * padding + b"<meta charset=gbk>").source == source
    declaration = b'<?xml encoding="gbk"' + b" " * (1024 - 22) + b"?>"
    assert charset_of(MediaType("text/xml"), declaration).source == "meta"
    assert charset_of(MediaType("text/xml"), declaration.replace(b"?>", b" ?>")).source == "default"


@given(st.text(alphabet="<>meta charset=gbk'\"/!-?;\n", max_size=200))
def test_any_document_has_a_charset(document: str) -> None:
    assert charset_of(MediaType(HTML), document.encode()).encoding in {"UTF-8", "GBK"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfa", "a"),
        (b"\xef\xbb\xbf\xef\xbb\xbfa", "\ufeffa"),
        (b"\xff\xfea\0", "a"),
        (b"\xfe\xff\0a", "a"),
        (b"a\xef\xbb\xbf", "a\ufeff"),
        (b"", ""),
        (b"\xe9", "\ufffd"),
    ],
)
def test_amb66_text_has_no_byte_order_mark_and_errors_are_replaced(data: bytes, text: str) -> None:
    assert decode_text(data, charset_of(MediaType("text/plain"), data)) == text


# Kinds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("essence", "kind"),
    [
        ("application/json", ContentKind.JSON),
        ("text/json", ContentKind.JSON),
        ("application/problem+json", ContentKind.JSON),
        ("application/jsonp", ContentKind.BINARY),
        ("application/xml", ContentKind.XML),
        ("text/xml", ContentKind.XML),
        ("image/svg+xml", ContentKind.XML),
        ("application/xhtml+xml", ContentKind.XML),
        ("text/html", ContentKind.HTML),
        ("application/x-www-form-urlencoded", ContentKind.FORM),
        ("text/plain", ContentKind.TEXT),
        ("text/event-stream", ContentKind.TEXT),
        ("text/x-anything", ContentKind.TEXT),
        ("application/javascript", ContentKind.TEXT),
        ("application/x-ndjson", ContentKind.TEXT),
        ("application/json-seq", ContentKind.TEXT),
        ("application/geo+json-seq", ContentKind.TEXT),
        ("application/yaml", ContentKind.TEXT),
        ("application/openapi+yaml", ContentKind.TEXT),
        ("image/yaml", ContentKind.BINARY),
        ("application/octet-stream", ContentKind.BINARY),
        ("application/pdf", ContentKind.BINARY),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", ContentKind.BINARY),
        ("image/png", ContentKind.BINARY),
        ("textual/plain", ContentKind.BINARY),
    ],
)
def test_w86_w92_the_media_type_decides_whatever_the_bytes(essence: str, kind: ContentKind) -> None:
    assert kind_of(MediaType(essence), b"text") is kind
    assert kind_of(MediaType(essence), b"\0\xff") is kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", ContentKind.TEXT),
        (b"text", ContentKind.TEXT),
        ("täxt".encode(), ContentKind.TEXT),
        (b'{"json": 1}', ContentKind.TEXT),
        (b"te\0xt", ContentKind.BINARY),
        (b"t\xe4xt", ContentKind.BINARY),
        (b"t\xc3", ContentKind.BINARY),
        (b"\x89PNG\r\n", ContentKind.BINARY),
    ],
)
def test_amb65_without_a_media_type_valid_utf8_without_nul_is_text(data: bytes, kind: ContentKind) -> None:
    assert kind_of(None, data) is kind


# UTF-8 and cuts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "valid"),
    [
        (b"", True),
        (b"ascii\0", True),
        ("é€😀".encode(), True),
        (b"\xef\xbb\xbf", True),
        (b"\xe9", False),
        (b"\xc0\x80", False),
        (b"\xed\xa0\x80", False),
        (b"\xf4\x90\x80\x80", False),
        (b"\xe2\x82", False),
    ],
)
def test_f77_valid_utf8(data: bytes, valid: bool) -> None:
    assert is_utf8(data) is valid


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"", b""),
        (b"abc", b"abc"),
        (b"ab\xc3", b"ab"),
        (b"\xc3", b""),
        (b"a\xe2\x82", b"a"),
        (b"a\xf0\x9f\x98", b"a"),
        (b"\xf0\x9f\x98", b""),
        (b"\xf0\x9f\x98\x80", b"\xf0\x9f\x98\x80"),
        (b"\xe2\x82\xac\xe2", b"\xe2\x82\xac"),
        (b"\xe2\x82\xac", b"\xe2\x82\xac"),
        # Nothing that could follow would make these valid: they were wrong before the cut.
        (b"a\x80", b"a\x80"),
        (b"a\xff", b"a\xff"),
        (b"a\xe0\x80", b"a\xe0\x80"),
        (b"a\xed\xa0", b"a\xed\xa0"),
        (b"a\xf4\x90", b"a\xf4\x90"),
        (b"a\xc1", b"a\xc1"),
        (b"a\xf5", b"a\xf5"),
        (b"a\xf0\x8f\xbf", b"a\xf0\x8f\xbf"),
        (b"\x80\x80\x80\x80", b"\x80\x80\x80\x80"),
    ],
)
def test_amb7_a_cut_character_is_dropped(data: bytes, kept: bytes) -> None:
    assert cut_utf8(data) == kept


def test_amb7_what_is_dropped_is_just_what_can_be_completed() -> None:
    """Every beginning of one to three bytes, against Python's own idea of a valid character."""
    characters = (chr(code).encode() for code in range(0x80, 0x110000, 0x40) if not 0xD800 <= code < 0xE000)
    beginnings = {encoded[:size] for encoded in characters for size in range(1, len(encoded))}
    assert {cut_utf8(b"x" + beginning) for beginning in beginnings} == {b"x"}
    others = {
        bytes([first, second]) for first in range(0xC0, 0x100) for second in range(0x80, 0xC0)
    } - beginnings
    assert {cut_utf8(other) for other in others} == others


@given(st.text(max_size=30), st.data())
def test_amb7_every_cut_of_valid_text_is_mended_and_loses_no_whole_character(
    text: str, data: st.DataObject
) -> None:
    encoded = text.encode("utf-8")
    cut = encoded[: data.draw(st.integers(0, len(encoded)))]
    kept = cut_utf8(cut)
    assert text.startswith(kept.decode("utf-8"))
    assert len(cut) - len(kept) <= 3
    assert len(text) == len(kept.decode("utf-8")) or len(
        (kept.decode() + text[len(kept.decode())]).encode()
    ) > len(cut)


# JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (' {"a": [1, 2.5, true, "x"]}\r\n', {"a": [1, 2.5, True, "x"]}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('"\\ud83d\\ude00 \\u00e9 😀"', "😀 é 😀"),
        ('"\\\\ud800"', "\\ud800"),
        ("1e308", 1e308),
        ("1e-999", 0.0),
        ("9" * 4300, 10**4300 - 1),
        ('"NaN Infinity [[["', "NaN Infinity [[["),
    ],
)
def test_w86_strict_json_is_parsed(text: str, value: object) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "\ufeff",
            "\ufeff\ufeff1",
            "{",
            "nul",
            "[1,]",
            "{'a': 1}",
            "01",
            "+1",
            ".5",
            "1 2",
            "\u00a01",
        ),
        *(
            "NaN",
            "Infinity",
            "-Infinity",
            "[NaN]",
            '{"a": NaN}',
            "1e999",
            "-1e999",
            "[1.0e400]",
            "9" * 400 + ".0",
        ),
        *(
            '"\\ud800"',
            '"\\udc00"',
            '{"\\uDBFF": 1}',
            '["\\ud83d", "\\ude00"]',
            '"\ud800"',
            '"\\ude00\\ud83d"',
        ),
        *('"a\nb"', '"\t"', '"', '"\\x"', "9" * 4301, "/* */ 1", "１"),
    ],
)
def test_amb67_what_would_not_survive_as_strict_json_is_refused(text: str) -> None:
    """Cross-cutting case 12: NaN, 1e999, empty, byte order mark."""
    with pytest.raises(ValueError, match="JSON") as caught:
        parse_json(text)
    assert type(caught.value) is ValueError
    assert caught.value.__cause__ is None


def _nested(depth: int, left: str, right: str) -> str:
    return left * depth + "1" + right * depth


@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"a]\\"]\\\\":', "}"), ('["]]}}",', "]")])
def test_json_may_nest_so_deep_and_no_deeper(left: str, right: str) -> None:
    """Brackets within strings, and escaped quotation marks, mislead nobody."""
    value = parse_json(_nested(MAX_JSON_DEPTH, left, right))
    assert json.dumps(value)
    with pytest.raises(ValueError, match="256 levels"):
        parse_json(_nested(MAX_JSON_DEPTH + 1, left, right))


@pytest.mark.parametrize("text", ["[" * 1_000_000, '{"a":' * 200_000, '["]",' * 200_000, "[{}," * 100_000])
def test_endless_nesting_is_refused_whole_or_cut(text: str) -> None:
    with pytest.raises(ValueError, match="levels"):
        parse_json(text)


@pytest.mark.parametrize("brackets", ["[" * 1000, "[]" * 1000, "{[" * 1000])
def test_brackets_in_strings_are_no_nesting(brackets: str) -> None:
    assert parse_json(json.dumps([brackets, "\\", '"' + brackets])) == [brackets, "\\", '"' + brackets]
    assert parse_json(json.dumps([[{}]] * 1000)) == [[{}]] * 1000


def test_a_recursion_error_of_a_deep_stack_does_not_escape() -> None:
    document = _nested(MAX_JSON_DEPTH, "[", "]")

    def descend(parse_at: int) -> None:
        if parse_at:
            descend(parse_at - 1)
        else:
            parse_json(document)

    seen = set()
    for depth in range(0, 800, 50):
        try:
            descend(depth)
        except ValueError as error:
            seen.add(str(error))
    # From 3.12 on, code in C has a limit of its own, which this document does not reach.
    assert seen == ({"not strict JSON: too deep for this stack"} if sys.version_info < (3, 12) else set())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values, st.booleans())
def test_w84_whatever_is_parsed_can_be_written_strictly_again(value: object, ascii_only: bool) -> None:
    parsed = parse_json(json.dumps(value, ensure_ascii=ascii_only))
    assert parsed == value
    assert json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode("utf-8")


@given(st.text(alphabet='[]{}",:\\u dD8019eE-+.NaInfty\ufeff\ud800', max_size=40))
def test_w84_parse_json_gives_strict_json_or_a_value_error(text: str) -> None:
    try:
        value = parse_json(text)
    except ValueError:
        return
    assert json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
