"""Tools, calls and results in the format of Anthropic's Messages API."""

from onhand.formats.anthropic import AnthropicFormat
from onhand.formats.message import Message
from onhand.tools import Call, Result
from requirements import requirement

TOOL = {"name": "t", "description": "d", "input_schema": {"type": "object"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
MARK = {"cache_control": {"type": "ephemeral"}}
SAID = [
    Message("system", "S"),
    Message("user", "U"),
    Message("assistant", " \n", (Call("t", {"a": 1}, "c1"), Call("t", '{"a": ', "c2")), kept=(THOUGHT,)),
    Message("tool", results=(Result("c1", "t", True, ""), Result("c2", "t", False, "not JSON"))),
    Message("user", "And?"),
]


@requirement("formats.anthropic")
def test_results_are_user_content_and_thinking_blocks_are_sent_back_unchanged() -> None:
    assert AnthropicFormat(cache=False).request(SAID, [TOOL]) == {
        "tools": [TOOL],
        "system": [{"type": "text", "text": "S"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "U"}]},
            {
                "role": "assistant",
                "content": [
                    THOUGHT,
                    {"type": "tool_use", "id": "c1", "name": "t", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "t", "input": {"unreadable_arguments": '{"a": '}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "(no output)"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "not JSON", "is_error": True},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
    }


@requirement("formats.anthropic")
def test_cache_breakpoints_mark_the_stable_prefix_and_the_last_block() -> None:
    spelled = AnthropicFormat().request(SAID, [TOOL])
    assert spelled["system"] == [{"type": "text", "text": "S", **MARK}]
    assert spelled["tools"] == [TOOL]  # they come before the system's text: its mark covers them
    assert spelled["messages"][-1]["content"][-1] == {"type": "text", "text": "And?", **MARK}
    assert str(spelled).count("cache_control") == 2
    assert AnthropicFormat().request(SAID[1:2], [TOOL])["tools"] == [{**TOOL, **MARK}]


@requirement("formats.anthropic")
def test_empty_answers_are_left_out_and_roles_alternate() -> None:
    said = [Message("user", "a"), Message("assistant", ""), Message("user", "b")]
    (turn,) = AnthropicFormat().request(said, [])["messages"]
    assert [block["text"] for block in turn["content"]] == ["a", "b"]


@requirement("formats.anthropic")
def test_a_response_is_parsed_with_its_thinking_blocks() -> None:
    content = [THOUGHT, {"type": "text", "text": "x"}, {"type": "tool_use", "id": "i", "name": "t", "input": {"a": 1}}]
    assert AnthropicFormat().read({"content": content}) == Message(
        "assistant", "x", (Call("t", {"a": 1}, "i"),), kept=(THOUGHT,)
    )
