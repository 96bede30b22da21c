"""What a model reads about the gateway in every client."""

import json
from collections.abc import Callable

from onhand.mcp.gateway import Gateway
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstreams import Upstreams
from requirements import requirement


@requirement("mcp.stable-surface")
def test_the_four_tools_of_the_gateway_read_the_same(golden: Callable[[str, str], None]) -> None:
    gateway = Gateway(Upstreams([ServerConfig("github", "github-server"), ServerConfig("slack", "slack-server")]))
    definitions = {"instructions": gateway.instructions, "tools": [tool.wire() for tool in gateway.tools]}
    golden("gateway_tools.json", json.dumps(definitions, indent=1, ensure_ascii=False) + "\n")
