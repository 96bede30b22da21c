"""Tools, calls and results in the formats of OpenAI's two APIs."""

from onhand.formats.message import Message
from onhand.formats.openai import ChatFormat, ResponsesFormat
from onhand.tools import Call, Result
from requirements import requirement

TOOL = {"name": "t", "description": "d", "input_schema": {"type": "object"}}
SAID = [
    Message("system", "S"),
    Message("user", "U"),
    Message("assistant", "", (Call("t", {"a": "é"}, "c1"), Call("t", '{"a": ', "c2"))),
    Message("tool", results=(Result("c1", "t", True, "fine"), Result("c2", "t", False, "not JSON"))),
]


@requirement("formats.openai")
def test_chat_completions_have_a_message_for_each_result_and_arguments_as_text() -> None:
    assert ChatFormat().request(SAID, [TOOL]) == {
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "U"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "t", "arguments": '{"a":"é"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "t", "arguments": '{"a": '}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "fine"},
            {"role": "tool", "tool_call_id": "c2", "content": "error: not JSON"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "t", "description": "d", "parameters": {"type": "object"}}}
        ],
    }


@requirement("formats.openai")
def test_responses_have_items_and_separate_instructions() -> None:
    reasoning = {"type": "reasoning", "id": "r1", "encrypted_content": "xyz"}
    spelled = ResponsesFormat().request([*SAID, Message("assistant", "Done.", kept=(reasoning,))], [TOOL])
    assert spelled == {
        "instructions": "S",
        "input": [
            {"role": "user", "content": "U"},
            {"type": "function_call", "call_id": "c1", "name": "t", "arguments": '{"a":"é"}'},
            {"type": "function_call", "call_id": "c2", "name": "t", "arguments": '{"a": '},
            {"type": "function_call_output", "call_id": "c1", "output": "fine"},
            {"type": "function_call_output", "call_id": "c2", "output": "error: not JSON"},
            reasoning,
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
            },
        ],
        "tools": [
            {"type": "function", "name": "t", "description": "d", "parameters": {"type": "object"}, "strict": False}
        ],
    }
    assert ResponsesFormat().read(spelled["input"][-2:]).kept == (reasoning,)


@requirement("formats.openai")
def test_a_refusal_and_object_arguments_are_parsed() -> None:
    assert ChatFormat().read({"content": None, "refusal": "No."}).text == "No."
    said = {"tool_calls": [{"id": "x", "function": {"name": "t", "arguments": {"a": 1}}}]}
    assert ChatFormat().read(said).calls == (Call("t", {"a": 1}, "x"),)
