"""What clients install onhand from: the manifests, and the links for editors."""

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from bundles.generate import REGISTRY_NAME, files, install_links

from onhand.mcp.client_settings import make_entry
from requirements import requirement

ROOT = Path(__file__).parents[2]


@requirement("mcp.bundles")
def test_the_manifests_read_the_same(golden: Callable[[str, str], None]) -> None:
    golden("bundles.txt", "".join(f"=== {name}\n{text}" for name, text in files().items()))


@requirement("mcp.bundles")
def test_the_links_of_editors_have_the_entries_that_our_command_would_write() -> None:
    links = install_links()
    assert links["vscode"].startswith("vscode:mcp/install?")
    assert json.loads(unquote(links["vscode"].partition("?")[2])) == {
        "name": "onhand",
        **make_entry("vscode", ["onhand"]),
    }
    cursor = urlsplit(links["cursor"])
    assert (cursor.scheme, cursor.netloc, cursor.path) == ("cursor", "anysphere.cursor-deeplink", "/mcp/install")
    query = parse_qs(cursor.query)
    assert query["name"] == ["onhand"]
    assert json.loads(b64decode(query["config"][0])) == make_entry("cursor", ["onhand"])


@requirement("mcp.bundles")
def test_the_readme_says_under_which_name_the_registry_has_us() -> None:
    assert f"mcp-name: {REGISTRY_NAME}" in (ROOT / "README.md").read_text(encoding="utf-8")
