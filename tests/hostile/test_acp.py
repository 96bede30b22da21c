"""Whatever an editor sends, it is answered, and the agent goes on."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hostile.cases import LONGEST_MADE, Case, Phrases, each, not_understood, quantity
from requirements import requirement
from unit.acp import test_agent as of_agent
from unit.acp.test_stdio import INITIALIZE, exchanged

phrases = Phrases()


@requirement("acp.default-adapter")
@pytest.mark.parametrize("case", each("acp"))
def test_a_message_is_survived(case: Case, tmp_path: Path) -> None:
    if case.expected != "survive":
        not_understood(case, "what is expected of a message")
    sent = case.sent
    if not isinstance(sent, dict) or "action" in sent or "method" not in sent:
        phrases.act(case, tmp_path)
        return
    said = {key: value for key, value in sent.items() if key != "notification"}
    message = {"jsonrpc": "2.0", **({} if sent.get("notification") else {"id": 7}), **said}
    line = json.dumps(message).replace("$ROOT", str(tmp_path)).replace("/tmp/PWN", str(tmp_path / "pwned"))
    begins = said["method"] == "initialize" or "before initialize" in case.words
    answers = exchanged([*([] if begins else [json.dumps(INITIALIZE).encode()]), line.encode()])
    of_case = [answer for answer in answers if answer["id"] == message.get("id", "none")]
    assert len(of_case) == ("id" in message)
    assert not (tmp_path / "pwned").exists()
    if found := re.match(r"-32\d{3}", case.detail):
        assert str(of_case[0]["error"]["code"]) == found[0], of_case
    elif of_case and case.detail.split(" ")[0] in ("error", "refused", "typed"):
        assert "error" in of_case[0], of_case
    return


@phrases.mean(
    r"(initialize|authenticate|session/\w+) (?:twice|again|two times)|(?:double|second|repeated) (initialize)"
)
def the_same_again(case: Case, found: Any, directory: Path) -> None:
    method = found[1] or found[2]
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": INITIALIZE["params"]}).encode()
    answers = exchanged([json.dumps(INITIALIZE).encode(), line, line])
    assert len([answer for answer in answers if answer["id"] == 7]) == 2


@phrases.mean(r"(\d[\d,]* ?[KMG]i?B)|(?:huge|long|large) (?:prompt|line|message)|(?:deep|nested)")
def a_large_message(case: Case, found: Any, directory: Path) -> None:
    """It is answered by its id, with an error where it is too large or too deep."""
    size = min(quantity(case.words, 1 << 20), LONGEST_MADE)
    prompt = '"' + "a" * size + '"' if found[1] or "deep" not in case.words else "[" * 5000 + "]" * 5000
    line = f'{{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{{"sessionId":"s","prompt":{prompt}}}}}'
    answers = exchanged([json.dumps(INITIALIZE).encode(), line.encode()])
    assert [answer for answer in answers if answer["id"] == 7 and "error" in answer]


@phrases.mean(r"(?:editor|client|stdin|input) .*(?:clos|dies|exit|gone|crash|disconnect)|clos\w* (?:its )?stdin|EOF")
def the_editor_is_gone(case: Case, found: Any, directory: Path) -> None:
    """What is at work ends with the editor."""
    of_agent.test_cancel_while_servers_connect_answers_cancelled(directory, "close")


@phrases.mean(r"concurrent .*prompt|two prompts|prompt.* (?:twice|at once)")
def two_prompts(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_cancel_ends_the_prompt_of_one_session_and_no_other(directory)


@phrases.mean(r"cancel.*permission|permission.*cancel")
def cancel_while_asked(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_cancel_during_a_permission_request_answers_cancelled(directory)


@phrases.mean(r"cancel")
def cancel(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_a_command_runs_and_is_killed_in_the_editors_terminal(directory)


@phrases.mean(r"fs/\w+|file|buffer")
def files_of_the_editor(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_editor_buffers_are_read_and_edited_by_the_same_rules_as_files(directory)


@phrases.mean(r"permission|reject|den(?:y|ies)|refus")
def permissions(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_a_rejected_call_does_not_run_and_is_reported_as_failed(directory, "reject_once")


@phrases.mean(r"model|provider|fails|error")
def the_model_fails(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_a_failing_model_ends_the_prompt_with_an_error_and_the_session_continues(directory)


@phrases.mean(r"terminal|kill|command|process")
def commands(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_a_command_runs_and_is_killed_in_the_editors_terminal(directory)


@phrases.mean(r"load|resume|session")
def sessions(case: Case, found: Any, directory: Path) -> None:
    of_agent.test_a_session_is_listed_loaded_with_replay_and_resumed_without(directory)
