"""Bytes to text by the WHATWG Encoding and HTML standards: labels, decoders, what a document says of itself.

A label from the network never reaches Python's codec registry: that one knows `unicode_escape`, `utf-7`
(which turns plain ASCII into tags) and `idna`, and takes ISO-8859-1 at its word.
"""

import codecs
import re
from functools import cache
from typing import Final

# https://encoding.spec.whatwg.org/#names-and-labels, the whole table (40 encodings, 228 labels).
_LABELS_BY_NAME: Final = {
    "UTF-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "IBM866": "866 cp866 csibm866 ibm866",
    "ISO-8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "ISO-8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "ISO-8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "ISO-8859-5": (
        "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988"
    ),
    "ISO-8859-6": (
        "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e"
        " iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
    ),
    "ISO-8859-7": (
        "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7"
        " iso_8859-7:1987 sun_eu_greek"
    ),
    "ISO-8859-8": (
        "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8"
        " iso_8859-8:1988 visual"
    ),
    "ISO-8859-8-I": "csiso88598i iso-8859-8-i logical",
    "ISO-8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "ISO-8859-13": "iso-8859-13 iso8859-13 iso885913",
    "ISO-8859-14": "iso-8859-14 iso8859-14 iso885914",
    "ISO-8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "ISO-8859-16": "iso-8859-16",
    "KOI8-R": "cskoi8r koi koi8 koi8-r koi8_r",
    "KOI8-U": "koi8-ru koi8-u",
    "macintosh": "csmacintosh mac macintosh x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "windows-1250": "cp1250 windows-1250 x-cp1250",
    "windows-1251": "cp1251 windows-1251 x-cp1251",
    "windows-1252": (
        "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591"
        " iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252"
    ),
    "windows-1253": "cp1253 windows-1253 x-cp1253",
    "windows-1254": (
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5"
        " windows-1254 x-cp1254"
    ),
    "windows-1255": "cp1255 windows-1255 x-cp1255",
    "windows-1256": "cp1256 windows-1256 x-cp1256",
    "windows-1257": "cp1257 windows-1257 x-cp1257",
    "windows-1258": "cp1258 windows-1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "GBK": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk",
    "gb18030": "gb18030",
    "Big5": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "EUC-JP": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "ISO-2022-JP": "csiso2022jp iso-2022-jp",
    "Shift_JIS": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "EUC-KR": (
        "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601"
        " ksc_5601 windows-949"
    ),
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr replacement",
    "UTF-16BE": "unicodefffe utf-16be",
    "UTF-16LE": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
    "x-user-defined": "x-user-defined",
}

_NAME_BY_LABEL: Final = {label: name for name, labels in _LABELS_BY_NAME.items() for label in labels.split()}

# Nearest codec of the standard library. Where it and the standard differ, in rare signs only, it answers
# U+FFFD more often: EUC-JP and ISO-2022-JP without the NEC and IBM rows, GBK without the single-byte euro.
_MULTI_BYTE_CODECS: Final = {
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "GBK": "gb18030",
    "gb18030": "gb18030",
    "Big5": "big5hkscs",
    "EUC-JP": "euc_jp",
    "ISO-2022-JP": "iso2022_jp_ext",
    "Shift_JIS": "cp932",
    "EUC-KR": "cp949",
}

_SINGLE_BYTE_CODECS: Final = {
    "IBM866": "cp866",
    "ISO-8859-2": "iso8859_2",
    "ISO-8859-3": "iso8859_3",
    "ISO-8859-4": "iso8859_4",
    "ISO-8859-5": "iso8859_5",
    "ISO-8859-6": "iso8859_6",
    "ISO-8859-7": "iso8859_7",
    "ISO-8859-8": "iso8859_8",
    "ISO-8859-8-I": "iso8859_8",
    "ISO-8859-10": "iso8859_10",
    "ISO-8859-13": "iso8859_13",
    "ISO-8859-14": "iso8859_14",
    "ISO-8859-15": "iso8859_15",
    "ISO-8859-16": "iso8859_16",
    "KOI8-R": "koi8_r",
    "KOI8-U": "koi8_u",
    "macintosh": "mac_roman",
    "windows-874": "cp874",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "windows-1252": "cp1252",
    "windows-1253": "cp1253",
    "windows-1254": "cp1254",
    "windows-1255": "cp1255",
    "windows-1256": "cp1256",
    "windows-1257": "cp1257",
    "windows-1258": "cp1258",
    "x-mac-cyrillic": "mac_cyrillic",
}

# Positions in which the standard's index differs from the Python codec.
_INDEX_DIFFERENCES: Final = {
    ("KOI8-U", 0xAE): "\u045e",
    ("KOI8-U", 0xBE): "\u040e",
    ("windows-1255", 0xCA): "\u05ba",
}

_ASCII_WHITE_SPACE: Final = "\t\n\f\r "


def decode_label(label: str) -> str | None:
    """The encoding that a label names, such as "windows-1252" for "Latin1"; None for a label the web has not.

    WHATWG Encoding 4.2, "get an encoding": ASCII white space around it and letter case do not matter, nothing
    else is forgiven. The name is as the standard writes it ("UTF-8", "Shift_JIS").
    """
    # str.lower() would fold the Kelvin sign into a k.
    return _NAME_BY_LABEL.get(label.strip(_ASCII_WHITE_SPACE).lower()) if label.isascii() else None


def decode(data: bytes, encoding: str) -> str:
    """The text, with U+FFFD for whatever is malformed; never raises for data. A byte order mark is kept.

    "replacement" stands for encodings that can hide ASCII from whoever checks the bytes; their content is
    not decoded at all but becomes one U+FFFD, as in browsers (WHATWG Encoding 14.1). "x-user-defined" keeps
    ASCII and moves the other bytes to U+F780..U+F7FF (14.5), so that nothing gets a meaning.

    Args:
        data: the bytes.
        encoding: a name that `decode_label` returned.

    Raises:
        KeyError: `encoding` is no such name.
    """
    if encoding == "replacement":
        return "\ufffd" if data else ""
    codec = _MULTI_BYTE_CODECS.get(encoding)
    if codec is not None:
        return data.decode(codec, "replace")
    return codecs.charmap_decode(data, "replace", _single_byte_index(encoding))[0]


@cache
def _single_byte_index(encoding: str) -> str:
    """The 256 characters of a single-byte encoding, U+FFFD where it has none."""
    if encoding == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    characters = bytes(range(256)).decode(_SINGLE_BYTE_CODECS[encoding], "replace")
    return "".join(
        _INDEX_DIFFERENCES.get((encoding, byte)) or _or_control(byte, characters[byte]) for byte in range(256)
    )


def _or_control(byte: int, character: str) -> str:
    # The standard fills the gaps of windows-125x with C1 controls, Python leaves them undefined.
    return chr(byte) if character == "\ufffd" and 0x80 <= byte <= 0x9F else character


SNIFFED_BYTES: Final = 1024
"""How much of a document is searched for what it says of itself (HTML 13.2.3.2)."""

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF16_BE, "UTF-16BE"),
    (codecs.BOM_UTF16_LE, "UTF-16LE"),
)

_UTF_16_XML: Final = (("<\0?\0x\0", "UTF-16LE"), ("\0<\0?\0x", "UTF-16BE"))

_XML_DECLARATION: Final = re.compile(
    r"""
    <\?xml [^>]*? encoding [\0-\x20]* = [\0-\x20]* (?P<quote>["']) (?P<label>[^>\0-\x20]*?) (?P=quote) [^>]*>
    """,
    re.VERBOSE,
)

_META: Final = re.compile(r"<meta(?=[\t\n\f\r /])", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[a-z][^\t\n\f\r >]*", re.IGNORECASE)
_END_OF_TAG: Final = re.compile(r"[\t\n\f\r /]*>")
# HTML 13.2.3.2, "get an attribute"; no match where the bytes run out. The possessive quantifiers keep a name
# or a run of white space from being cut short to make some match.
_ATTRIBUTE: Final = re.compile(
    r"""
    [\t\n\f\r\ /]*+
    (?P<name> [^\t\n\f\r\ />] [^\t\n\f\r\ />=]*+ )
    [\t\n\f\r\ ]*+
    (?: = [\t\n\f\r\ ]*+
        (?: (?P<quote>["']) (?P<quoted>.*?) (?P=quote)
          | (?P<bare> (?:[^\t\n\f\r\ >"'] [^\t\n\f\r\ >]*+)? ) (?=[\t\n\f\r\ >])
        )
      | (?=[^=])
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# HTML 2.5.5, "extracting a character encoding from a meta element". A lone quote ends the search.
_CONTENT_CHARSET: Final = re.compile(
    r"""
    charset [\t\n\f\r\ ]* = [\t\n\f\r\ ]*
    (?: (?P<quote>["']) (?P<quoted>.*?) (?P=quote) | ["'] | (?P<bare>[^\t\n\f\r\ ;]*) )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def byte_order_mark(data: bytes) -> str | None:
    """The encoding that a byte order mark names: "UTF-8", "UTF-16BE", "UTF-16LE" or None."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None)


def declared_in_xml(data: bytes) -> str | None:
    """The encoding an XML declaration names, or that shows in UTF-16 without a mark; else None.

    HTML 13.2.3.2, "get an XML encoding". Only the first `SNIFFED_BYTES` bytes are looked at.
    """
    head = data[:SNIFFED_BYTES].decode("latin-1")
    for start, name in _UTF_16_XML:
        if head.startswith(start):
            return name
    match = _XML_DECLARATION.match(head)
    return _declared(match["label"]) if match else None


def declared_in_html(data: bytes) -> str | None:
    """The encoding a `meta` element names, else what `declared_in_xml` finds.

    HTML 13.2.3.2, "prescan a byte stream to determine its encoding". Only the first `SNIFFED_BYTES` bytes are
    looked at.
    """
    return _declared_in_meta(data[:SNIFFED_BYTES].decode("latin-1")) or declared_in_xml(data)


def _declared(label: str) -> str | None:
    # The declaration was read as ASCII, so it is neither UTF-16 nor anybody's own encoding (HTML 13.2.3.2).
    name = decode_label(label)
    if name in ("UTF-16BE", "UTF-16LE"):
        return "UTF-8"
    return "windows-1252" if name == "x-user-defined" else name


def _declared_in_meta(head: str) -> str | None:
    position = head.find("<")
    while position >= 0:
        meta = _META.match(head, position)
        attributes, end = _attributes(head, meta.end()) if meta else ({}, _skip_markup(head, position))
        found = _declared_in_attributes(attributes)
        if found:
            return found
        position = head.find("<", end)
    return None


def _skip_markup(head: str, position: int) -> int:
    """Where the comment, tag or declaration ends that may begin here."""
    if head.startswith("<!--", position):
        return _after("-->", head, position + 2)  # `<!-->` is a whole comment
    if tag := _TAG.match(head, position):
        return _attributes(head, tag.end())[1]
    if head.startswith(("<!", "</", "<?"), position):
        return _after(">", head, position)
    return position + 1


def _after(needle: str, head: str, position: int) -> int:
    found = head.find(needle, position)
    return len(head) if found < 0 else found + len(needle)


def _attributes(head: str, position: int) -> tuple[dict[str, str], int]:
    """The attributes of a tag, the first of each name, and where the tag ends; none if it is cut short."""
    attributes: dict[str, str] = {}
    while not (end := _END_OF_TAG.match(head, position)):
        match = _ATTRIBUTE.match(head, position)
        if not match:
            return {}, len(head)
        attributes.setdefault(match["name"].lower(), match["quoted"] or match["bare"] or "")
        position = match.end()
    return attributes, end.end()


def _declared_in_attributes(attributes: dict[str, str]) -> str | None:
    if "charset" in attributes:
        return _declared(attributes["charset"])
    if attributes.get("http-equiv", "").lower() != "content-type":
        return None
    match = _CONTENT_CHARSET.search(attributes.get("content", ""))
    return _declared(match["quoted"] or match["bare"] or "") if match else None
