"""As whom do we log in?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from onhand.errors import ConfigError
from onhand.mcp.oauth import oauth_login
from onhand.mcp.servers import ServerConfig
from requirements import requirement

URL = "https://x.org/mcp"


def login(directory: Path, environ: Mapping[str, str] | None = None, **said: Any) -> Any:
    return oauth_login(str(directory), environ=environ)(
        ServerConfig("it", url=URL, transport="http", oauth=True, **said)
    )


def known_as(provider: Any) -> Any:
    return anyio.run(provider.context.storage.get_client_info)


@requirement("mcp.one-client-per-server")
def test_where_nobody_may_register_we_are_who_the_configuration_says(tmp_path: Path) -> None:
    client = known_as(login(tmp_path, {"MINE": "s3cret"}, client_id="ours", client_secret="${MINE}"))
    assert (client.client_id, client.client_secret) == ("ours", "s3cret")
    assert client.token_endpoint_auth_method == "client_secret_basic"
    public = known_as(login(tmp_path, client_id="ours"))
    assert (public.client_secret, public.token_endpoint_auth_method) == (None, "none")
    assert known_as(login(tmp_path)) is None
    assert not list(tmp_path.rglob("*"))  # a secret is not written anywhere


def test_an_address_that_describes_us_is_used_where_the_log_in_can_read_it(tmp_path: Path) -> None:
    provider = login(tmp_path, client_id="https://me.org/client.json")
    assert provider.context.client_metadata_url == "https://me.org/client.json"
    assert known_as(provider) is None


@requirement("mcp.dead-upstreams-are-harmless")
def test_a_secret_that_is_not_set_costs_only_who_logs_in_with_it(tmp_path: Path) -> None:
    provider = login(tmp_path, {}, client_id="ours", client_secret="${MINE}")
    with pytest.raises(ConfigError, match="MINE is not set"):
        known_as(provider)
