"""Page text: what a person would read of a response, as markdown or plain text (extra `text`).

    async with open_converter() as converter:
        page = await converter.convert(response, "markdown")
        part = cut_page(page.text, 0, 5000)

Converting HTML costs whatever the author of a page wants it to cost: 50,000 attributes on one tag keep a
good parser busy for seconds, and no thread can be stopped. So it happens in a process that is killed at its
deadline, or when the call is cancelled, and another converter gets its turn.
"""

from tidegate_tools.pages.cache import Cache as Cache
from tidegate_tools.pages.converter import ConverterLimits as ConverterLimits
from tidegate_tools.pages.converter import PageConverter as PageConverter
from tidegate_tools.pages.converter import convert as convert
from tidegate_tools.pages.converter import open_converter as open_converter
from tidegate_tools.pages.page import Format as Format
from tidegate_tools.pages.page import Page as Page
from tidegate_tools.pages.page import PageText as PageText
from tidegate_tools.pages.paging import Part as Part
from tidegate_tools.pages.paging import cut_page as cut_page
from tidegate_tools.pages.polite import PoliteFetch as PoliteFetch
from tidegate_tools.pages.robots import Robots as Robots
from tidegate_tools.pages.robots import RobotsRefusal as RobotsRefusal
