"""Does anything hidden reach a model or a terminal, from any source and through any door?"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from onhand.agent.prompt import build_parts
from onhand.cli.main import main
from onhand.document import Document
from onhand.doors import mcp_surface
from onhand.hidden_characters import is_hidden_in
from onhand.mcp.gateway import Gateway
from onhand.mcp.pass_through import PassThrough
from onhand.mcp.servers import ServerConfig
from onhand.mcp.stdio import Refusal, parse_message
from onhand.mcp.surface import build_server, sanitize_message
from onhand.mcp.upstreams import Upstreams
from onhand.project import Project, load_config, open_index
from requirements import requirement
from unit.mcp.conftest import Behind, behind  # noqa: F401  # a fixture

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "ignore")
PAYLOAD = f"{TAGS}\u200b\u202e\u2066\ufe01\U000e0155\x7f\x9b\u2028\u2060"
EVIL = f"zebra pass{PAYLOAD}word 👩\u200d🚀 می\u200cخواهم"
MARKER = "[U+E0069 and "
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("context_search", {"query": "zebra"}),
    ("context_search", {"query": "password"}),
    ("search_rules", {"query": "zebra"}),
    ("rules_for_path", {"path": "a/x.py"}),
    ("search_skills", {"query": "zebra"}),
    ("read_skill", {"name": "trick"}),
    ("read_skill_reference", {"skill": "trick", "path": "more.md"}),
    ("search_notes", {"query": "zebra"}),
    ("keyword_search", {"query": "zebra"}),
    ("keyword_search", {"query": "password"}),
    ("get_document", {"document_id": "evil"}),
    ("read_file", {"path": "evil.txt"}),
    ("grep", {"pattern": "zebra"}),
    ("git", {"args": ["log", "-p"]}),
    ("run_command", {"command": "cat evil.txt"}),
]
COMMANDS = [
    ["context", "search", "zebra"],
    ["context", "search", "zebra", "--json"],
    ["rules", "show"],
    ["rules", "for", "a/x.py"],
    ["rules", "check"],
    ["skills", "list"],
    ["skills", "validate"],
    ["skills", "read", "trick"],
    ["docs", "keyword", "zebra"],
    ["docs", "keyword", "zebra", "--json"],
    ["docs", "get", "evil"],
    ["search", "zebra"],
    ["run", "read_file", '{"path": "evil.txt"}', "--text"],
    ["run", "read_file", '{"path": "evil.txt"}'],
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which the same hidden text is planted everywhere."""
    root = tmp_path / "project"
    note = f"---\nname: zebra\ndescription: about zebra{TAGS}\ntype: fact\n---\n\n{EVIL}\n"
    skill = f"---\nname: trick\ndescription: About zebra\n---\n# Trick\n\n{EVIL}\n"
    for path, text in {
        ".AGENTS/overview.md": f"# Overview\n\n{EVIL}\n",
        ".AGENTS/page.md": f"# Page pass{TAGS}word\n\n{EVIL}\n",
        "AGENTS.md": f"# Rules\n\n{EVIL}\n",
        "a/AGENTS.md": f"# More\n\n{EVIL}\n",
        ".agents/skills/trick/SKILL.md": skill,
        ".agents/skills/trick/more.md": f"# More\n\n{EVIL}\n",
        ".onhand/notes/zebra.md": note,
        "evil.txt": EVIL,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    with open_index(root / ".onhand/documents.db", None) as index:
        index.put(
            [Document("evil", EVIL, f"zebra pass{TAGS}word {EVIL}", author=EVIL, tags=(EVIL,), metadata={"a": EVIL})]
        )
    for words in (["init", "-q"], ["add", "evil.txt"], ["commit", "-qm", EVIL.replace("\x9b", "")]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@x.org", *words], cwd=root, check=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path))
    asked = {
        "WORKSPACE_TOOLS": "write",
        "SHELL_ENABLED": "true",
        "SANDBOX_BACKEND": "none",
        "DOCUMENTS_EMBEDDER": "none",
    }
    for name, value in asked.items():
        monkeypatch.setenv(f"ONHAND_{name}", value)
    return root


def is_clean(text: str, where: object) -> None:
    assert not is_hidden_in(text), (where, ascii(text))
    assert not set(PAYLOAD) & set(text), (where, ascii(text))


@requirement("text.nothing-hidden")
def test_no_tool_shows_a_model_anything_hidden(project: Path) -> None:
    registry = Project(load_config()).registry()
    for name, arguments in CALLS:
        result = registry.call(name, arguments)
        assert result.ok, (name, result.text)
        for text in (result.text, json.dumps(result.structured, ensure_ascii=False)):
            is_clean(text, name)
        assert MARKER in result.text or name == "search_skills", (name, result.text)


@requirement("text.nothing-hidden")
def test_no_prompt_has_anything_hidden_and_it_has_the_same_bytes_again(project: Path) -> None:
    opened = Project(load_config())
    parts = build_parts(opened.context, opened.rules, opened.skills, opened.notes)
    assert {"pinned", "rules", "notes"} <= {part.name for part in parts}
    for part in parts:
        is_clean(part.text, part.name)
        assert MARKER in part.text or part.name in ("core", "skills")
    assert parts == build_parts(opened.context, opened.rules, opened.skills, opened.notes)


@requirement("text.nothing-hidden")
def test_nothing_that_mcp_serves_has_anything_hidden(project: Path) -> None:
    async def main() -> None:
        async with Client(build_server(mcp_surface(Project(load_config())))) as client:
            seen: list[Any] = [await client.list_tools(), await client.list_resources(), await client.list_prompts()]
            seen += [await client.read_resource(one.uri) for one in seen[1].resources]
            seen += [
                await client.get_prompt("project_context"),
                await client.get_prompt("use_skill", {"name": "trick"}),
            ]
            seen += [await client.call_tool(name, arguments) for name, arguments in CALLS]
            assert sum(MARKER in str(texts_of(one)) for one in seen) > len(CALLS)
            for one in seen:
                is_clean("\n".join(texts_of(one)), one)

    anyio.run(main)


def texts_of(value: Any) -> list[str]:
    """Every text of a message."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in texts_of(part)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in texts_of(item)]
    return [value.replace("\n", " ")] if isinstance(value, str) else []


@requirement("text.nothing-hidden")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_prints_anything_hidden(project: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words)
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        is_clean(text, words)
    assert "U+E0069" in printed.out + printed.err or "\\udb40\\udc69" in printed.out or words[1] == "list"


@requirement("text.hidden-is-reported")
@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["rules", "check"], "AGENTS.md"),
        (["skills", "validate"], "SKILL.md"),
        (["context", "show"], "page.md"),
        (["docs", "import", "evil.txt"], "evil.txt"),
    ],
)
def test_a_check_names_file_line_column_and_character(
    project: Path, words: list[str], place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(words)
    printed = "".join(capsys.readouterr())
    assert place in printed
    assert "column 11: U+E0069 TAG LATIN SMALL LETTER I and" in printed
    assert code == (0 if words[0] in ("docs", "context") else 1)


@requirement("text.nothing-hidden")
def test_no_upstream_server_shows_a_client_anything_hidden(behind: Behind) -> None:  # noqa: F811
    async def main() -> None:
        for make, name in ((Gateway, "f__echo"), (lambda upstreams: PassThrough(upstreams, "f"), "echo")):
            async with Client(build_server(make(Upstreams([behind("f", "faithful")])))) as client:
                result = await client.call_tool(name, {"text": EVIL})
                assert isinstance(result.content[0], types.TextContent)
                assert MARKER in result.content[0].text
                is_clean(result.content[0].text, name)
                try:
                    is_clean("\n".join(texts_of(await client.call_tool(f"{name}{TAGS}"))), name)
                except MCPError as error:
                    is_clean(str(error), name)

    anyio.run(main)


# A server that hides something in each text of each answer.
HIDING = f"""
import json, sys
T = {TAGS!r} + "\\u200b"
MADE = {{
    "initialize": {{
        "protocolVersion": "2025-11-25", "serverInfo": {{"name": "u" + T, "version": T}}, "instructions": "do" + T,
        "capabilities": {{"tools": {{}}, "resources": {{}}, "prompts": {{}}, "completions": {{}}, "logging": {{}}}},
    }},
    "tools/list": {{"tools": [{{"name": "ok", "inputSchema": {{"type": "object"}}}}]}},
    "tools/call": {{
        "content": [{{"type": "text", "text": T}}, {{"type": "resource", "resource": {{"uri": "x://b", "text": T}}}}],
        "structuredContent": {{"a" + T: [T]}},
    }},
    "resources/list": {{"resources": [{{"uri": "x://a", "name": "r" + T, "description": T}}]}},
    "resources/templates/list": {{"resourceTemplates": [{{"uriTemplate": "x://{{a}}", "name": T, "description": T}}]}},
    "resources/read": {{"contents": [{{"uri": "x://a", "text": T}}]}},
    "prompts/list": {{"prompts": [{{"name": "p", "description": T, "arguments": [{{"name": "q", "title": T}}]}}]}},
    "prompts/get": {{"description": T, "messages": [{{"role": "user", "content": {{"type": "text", "text": T}}}}]}},
    "completion/complete": {{"completion": {{"values": [T]}}}},
}}
for line in sys.stdin:
    asked = json.loads(line)
    wrong = {{"error": {{"code": -32000, "message": "no" + T, "data": {{T: T}}}}}}
    answer = {{"result": MADE[asked["method"]]}} if asked["method"] in MADE else wrong
    if "id" in asked: print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **answer}}), flush=True)
"""


@requirement("text.nothing-hidden")
def test_no_method_of_a_server_brings_a_client_anything_hidden() -> None:
    heard: list[Any] = []

    async def main() -> None:
        server = ServerConfig("u", sys.executable, ("-S", "-c", HIDING))
        surface = PassThrough(Upstreams([server]), "u")
        async with Client(build_server(surface), cache=None) as client:
            await client.list_tools()
            heard.append(await client.call_tool("ok"))
            heard.append(await client.list_resources())
            heard.append(await client.list_resource_templates())
            heard.append(await client.read_resource("x://a"))
            heard.append(await client.list_prompts())
            heard.append(await client.get_prompt("p"))
            ask = types.PromptReference(name="p")
            heard.append(await client.complete(ask, {"name": "q", "value": ""}))

    anyio.run(main)
    for one in heard:
        is_clean("\n".join(texts_of(one)), one)
        assert MARKER in str(texts_of(one)), one


@requirement("text.nothing-hidden")
@pytest.mark.parametrize("id", [{"id": 7}, {}])
def test_no_method_with_a_hidden_name_reaches_an_error(id: dict[str, int]) -> None:
    refused = parse_message(
        json.dumps({"jsonrpc": "2.0", "method": f"ping{PAYLOAD}", **id}, ensure_ascii=False).encode()
    )
    assert refused == (
        Refusal(types.METHOD_NOT_FOUND, "No method has hidden characters in its name.", 7) if id else None
    )


def test_what_a_server_asks_a_person_has_nothing_hidden() -> None:
    params = types.ElicitRequestFormParams(message=EVIL, requested_schema={"type": "object", "title": EVIL})
    asked = types.InputRequiredResult(input_requests={f"one{TAGS}": types.ElicitRequest(params=params)})
    is_clean("\n".join(texts_of(sanitize_message(asked))), "elicitation")
    assert type(sanitize_message(asked)) is types.InputRequiredResult


@requirement("text.nothing-hidden", "mcp.bad-items-cost-themselves")
def test_a_deep_schema_is_cut_for_clients_and_costs_nothing_else(behind: Behind, tmp_path: Path) -> None:  # noqa: F811
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(100):
        schema = {"description": EVIL, "not": schema}
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([{"name": "deep", "inputSchema": {"type": "object", "properties": {"a": schema}}}]))

    async def main() -> None:
        async with Upstreams([behind("g", "given", str(listed))]) as upstreams:
            assert await upstreams.connect() == {}
            for route in upstreams.routes():
                shown = json.dumps(route.tool.input_schema, ensure_ascii=False)
                is_clean(shown, route.upstream_name)
                assert 50 < shown.count('"not"') < 64

    anyio.run(main)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("pass[U+E0069 and 14 more hidden characters]word", "pass[U+E0069 and 14 more hidden characters]port", "keep"),
        ("pass[U+E0069 and 14 more hidden characters]word", "password", "remove"),
        ("zebra", "horse", "beside"),
        ("pass[U+E0069 and 14 more hidden characters]word", "[U+E0069 and 14 more hidden characters]" * 2, "refuse"),
    ],
)
def test_an_edit_of_what_was_read_does_what_it_says(project: Path, old: str, new: str, expected: str) -> None:
    registry = Project(load_config()).registry()
    read = registry.call("read_file", {"path": "evil.txt"}).text
    assert f"[U+E0069 and {len(PAYLOAD) - 1} more hidden characters]" in read
    assert "edit_file keeps those" in read
    marker = f"[U+E0069 and {len(PAYLOAD) - 1} more hidden characters]"
    old, new = (text.replace("[U+E0069 and 14 more hidden characters]", marker) for text in (old, new))
    result = registry.call("edit_file", {"path": "evil.txt", "old_string": old, "new_string": new})
    written = Path("evil.txt").read_text(encoding="utf-8")
    assert (
        written
        == {
            "keep": EVIL.replace("word", "port"),
            "remove": EVIL.replace(PAYLOAD, ""),
            "beside": EVIL.replace("zebra", "horse"),
            "refuse": EVIL,
        }[expected]
    )
    assert result.ok == (expected != "refuse")
    copied = registry.call("write_file", {"path": "evil.txt", "content": read.splitlines()[0]})
    if PAYLOAD in written:
        assert not copied.ok
        assert "edit_file, which keeps them" in copied.text
