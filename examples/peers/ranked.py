"""Which of the tools that a framework hands over fit a query? An onhand catalog that follows the framework's list."""

from collections.abc import Sequence

from onhand.tools.catalog import Catalog
from onhand.tools.catalog_tool import CatalogTool


class Ranked:
    """Keeps an index of the tools it was last given: a search over the same tools builds nothing."""

    def __init__(self) -> None:
        self._catalog = Catalog()
        self._known: dict[str, CatalogTool] = {}

    def best(self, tools: Sequence[CatalogTool], query: str, limit: int) -> list[str]:
        """Names of tools, best first; none when nothing fits."""
        current = {tool.name: tool for tool in tools}
        if current != self._known:
            self._catalog.remove([name for name in self._known if name not in current])
            self._catalog.add([tool for name, tool in current.items() if self._known.get(name) != tool])
            self._known = current
        return [hit.name for hit in self._catalog.search(query, limit).hits]
