"""Is a file of another server's skill what its list says?"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from onhand.errors import UpstreamError
from onhand.mcp.gateway import Gateway
from onhand.mcp.local import LocalSurface
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.servers import ServerConfig
from onhand.mcp.upstream_routes import listed_files
from onhand.mcp.upstreams import Upstreams
from requirements import requirement
from unit.mcp.conftest import Behind, talking
from unit.mcp.test_local import asked

HEAD = b"---\nname: wash\ndescription: Washes bikes.\nversion: 1.0\n---\n\nUse water.\n"
MATTER = {"name": "wash", "description": "Washes bikes.", "version": 1.0}
SRC = str(Path(__file__).parents[3] / "src")


def listed(content: bytes = HEAD, **changed: Any) -> dict[str, Any]:
    file = {"uri": "skill://wash/SKILL.md", "digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    entry = {"uri": file["uri"], "frontmatter": MATTER, "resources": [{**file, "size": len(content)}]}
    return {**entry, **changed}


@requirement("mcp.skills-extension")
@pytest.mark.parametrize(
    ("entry", "content", "fails"),
    [
        (listed(), HEAD, ""),
        (listed(), HEAD.replace(b"water", b"petro"), "digest"),
        (listed(), HEAD + b"\n", "size"),
        (listed(frontmatter={**MATTER, "description": "Burns bikes."}), HEAD, "front matter"),
        (listed(frontmatter={**MATTER, "version": "1.0"}), HEAD, ""),
        (listed(resources="dynamic"), HEAD + b"more", ""),
        (listed(resources="dynamic"), b"no front matter", "front matter"),
        (listed(resources=[5, {}], frontmatter=5), HEAD, None),
    ],
)
def test_a_file_is_proven_by_size_digest_and_front_matter(
    entry: dict[str, Any], content: bytes, fails: str | None
) -> None:
    proof = listed_files([entry]).get("skill://wash/SKILL.md")
    assert (proof.find_mismatch(content) if proof else None) == fails


def serving(project: Path) -> ServerConfig:
    words = ("-m", "onhand", "serve", "--root", str(project))
    return ServerConfig("other", sys.executable, words, {"PYTHONPATH": SRC, "HOME": str(project)})


@requirement("mcp.skills-extension", "mcp.registry-operations")
def test_a_skill_of_another_server_is_read_as_it_was_listed_or_not_at_all(project: Path) -> None:
    head = project / ".agents/skills/wash/SKILL.md"

    async def main() -> None:
        async with Upstreams([serving(project)]) as registry:
            assert await registry.connect() == {}
            (skill,) = registry.listing("other").skills
            assert skill["frontmatter"]["name"] == "wash"
            for file in skill["resources"]:
                read = await registry.read(f"mcp://other/{file['uri']}")
                assert isinstance(read, types.ReadResourceResult)
            head.write_text(head.read_text().replace("water", "fire!"))
            with pytest.raises(UpstreamError, match=r"the digest of skill:.* differs from the"):
                await registry.read(f"mcp://other/{skill['uri']}")

    anyio.run(main)


@requirement("mcp.skills-extension", "mcp.registry")
def test_skills_of_other_servers_are_listed_behind_our_own_found_and_read(project: Path, surface: LocalSurface) -> None:
    async def talk(client: Client) -> None:
        await client.call_tool("describe_tool", {"name": "other__wash"})  # which waits for its server
        ours, theirs = (await asked(client, "skills/list"))["skills"]
        assert (ours["uri"], theirs["uri"]) == ("skill://wash/SKILL.md", "mcp://other/skill://wash/SKILL.md")
        assert [file["digest"] for file in theirs["resources"]] == [file["digest"] for file in ours["resources"]]
        assert (await asked(client, "skills/get", uri=theirs["uri"]))["skill"] == theirs
        assert (await asked(client, "skills/get", uri=ours["uri"]))["skill"] == ours
        for file in theirs["resources"]:
            assert (await client.read_resource(file["uri"])).contents[0].uri == file["uri"]
        (head, logo, references) = (await asked(client, "resources/directory/read", uri="mcp://other/skill://wash"))[
            "resources"
        ]
        assert (head["uri"], logo["name"]) == (theirs["uri"], "logo.png")
        (soap,) = (await asked(client, "resources/directory/read", uri=references["uri"]))["resources"]
        assert soap["uri"] == "mcp://other/skill://wash/references/soap.md"
        assert (await client.read_resource(soap["uri"])).contents[0].uri == soap["uri"]
        (_, *_, ours_below) = (await asked(client, "resources/directory/read", uri="skill://wash"))["resources"]
        assert ours_below["uri"] == "skill://wash/references"
        found = await client.call_tool("search_tools", {"query": "washes bikes"})
        assert f"Resource: {theirs['uri']} " in str(found.content)

    talking(Gateway(Upstreams([serving(project)]), surface), talk)


@requirement("mcp.skills-extension", "mcp.faithful")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_skills_of_a_server_that_is_passed_through_are_its_own(mode: str, project: Path) -> None:
    async def talk(client: Client) -> None:
        (skill,) = (await asked(client, "skills/list"))["skills"]
        assert skill["uri"] == "skill://wash/SKILL.md"
        assert (await asked(client, "skills/get", uri=skill["uri"]))["skill"] == skill
        children = (await asked(client, "resources/directory/read", uri="skill://wash"))["resources"]
        assert [child["name"] for child in children] == ["SKILL.md", "logo.png", "references"]
        for uri in ("skill://wash/nothing", "elsewhere://wash"):
            with pytest.raises(MCPError, match="from skills/list"):
                await asked(client, "resources/directory/read", uri=uri)
        assert (await client.read_resource(skill["uri"])).contents[0].uri == skill["uri"]

    talking(PassThrough(Upstreams([serving(project)], version="1"), "other"), talk, mode)


@requirement("mcp.skills-extension")
def test_a_server_without_skills_that_is_passed_through_has_none(behind: Behind) -> None:
    async def talk(client: Client) -> None:
        assert (await asked(client, "skills/list"))["skills"] == []
        with pytest.raises(MCPError, match="Method not found"):
            await asked(client, "resources/directory/read", uri="skill://wash")

    talking(PassThrough(Upstreams([behind("p", "plain")], version="1"), "p"), talk)


@requirement("mcp.skills-extension", "mcp.bad-items-cost-themselves")
def test_what_hides_or_is_not_an_entry_is_left_out_of_a_servers_skills(behind: Behind) -> None:
    async def talk(client: Client) -> None:
        (skill,) = (await asked(client, "skills/list"))["skills"]
        assert skill["uri"] == "skill://good/SKILL.md"
        children = (await asked(client, "resources/directory/read", uri="skill://good"))["resources"]
        assert [child["uri"] for child in children] == ["skill://good/SKILL.md"]
        with pytest.raises(MCPError, match="not a list of resources"):
            await asked(client, "resources/directory/read", uri="skill://bad")
        with pytest.raises(MCPError, match="Use an address from skills/list"):
            await asked(client, "skills/get", uri="skill://hidden/SKILL.md")

    talking(PassThrough(Upstreams([behind("s", "skilled")], version="1"), "s"), talk, "legacy")
