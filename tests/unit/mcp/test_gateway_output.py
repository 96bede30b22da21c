"""Cutting long results."""

from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError

from onhand.mcp.gateway import OutputPager
from onhand.mcp.upstream_transport import cap_error
from requirements import requirement


def capped(result: types.CallToolResult, most: int, **more: Any) -> types.CallToolResult:
    async def main() -> types.CallToolResult:
        return OutputPager().cut(result, most, **more)

    return anyio.run(main)


def texts(*parts: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=part) for part in parts])


def test_a_short_result_is_unchanged() -> None:
    result = texts("a", "b")
    assert capped(result, 10_000) is result


@requirement("mcp.faithful", "mcp.output-continues")
def test_only_a_long_error_is_cut() -> None:
    error = MCPError(code=-32000, message="no", data={"a": 1})
    assert cap_error(error, 100) is error
    long = cap_error(MCPError(code=-32000, message="é" * 1_000), 101)
    assert (long.code, long.message) == (-32000, "é" * 50 + " [cut, of 2,000 bytes]")
    wordy = cap_error(MCPError(code=-32000, message="no", data=["x" * 1_000]), 100)
    assert (wordy.message, wordy.data) == ("no", None)


@requirement("mcp.output-continues")
def test_texts_share_one_limit_and_left_out_content_is_named() -> None:
    picture = types.ImageContent(data="A" * 100, mime_type="image/png")
    large = types.ImageContent(data="A" * 5000, mime_type="image/png")
    result = texts("x" * 800, "y" * 800).model_copy()
    result.content = [result.content[0], picture, result.content[1], large]
    shown = capped(result, 1000).content
    assert [block.type for block in shown] == ["text", "image", "text", "text"]
    assert shown[2].text == "y" * 200  # type: ignore[union-attr]
    assert "1 × image left out: 5," in shown[3].text  # type: ignore[union-attr]
    assert "601 more bytes; continue with read_on(" in shown[3].text  # type: ignore[union-attr]


@requirement("mcp.output-continues")
def test_images_share_one_limit() -> None:
    picture = types.ImageContent(data="A" * 300, mime_type="image/png")
    shown = capped(types.CallToolResult(content=[picture] * 5000), 1000).content
    assert [block.type for block in shown] == ["image", "image", "text"]
    assert "4998 × image left out" in shown[2].text  # type: ignore[union-attr]


@requirement("mcp.output-continues")
def test_large_structured_content_is_left_out_with_a_note() -> None:
    result = types.CallToolResult(content=[], structured_content={"a": "x" * 2000})
    assert not capped(result, 1000).is_error
    checked = capped(result, 1000, is_checked=True)
    assert checked.is_error  # a client that checks it would take it for a broken server
    assert checked.structured_content is None
    assert "structured content left out" in checked.content[0].text  # type: ignore[union-attr]


def test_old_rests_make_room_for_new_ones() -> None:
    async def main() -> None:
        outputs = OutputPager(max_kept_bytes=3000)
        first = outputs.cut(texts("a" * 3000), 1000).content[-1].text  # type: ignore[union-attr]
        outputs.cut(texts("b" * 3000), 1000)
        handle = first.split('handle="')[1].split('"')[0]
        try:
            outputs.read(handle)
        except Exception as error:
            assert "Call the tool again" in str(error)
        else:
            raise AssertionError("it should be gone")

    anyio.run(main)
