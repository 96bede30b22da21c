"""What a call may do, and who permits it: kinds of tools, the call tool of each kind, and asking the user.

A client can gate what it knows: the names and annotations of the tools that we list. So there is one call tool for each
kind, and each takes tools of its kind only. What a server says about its tools is only as good as the server; the user
can set another kind, and a policy that we enforce ourselves.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from secrets import token_urlsafe
from typing import Any

import mcp_types as types

from onhand.errors import ToolError
from onhand.mcp.client_callbacks import ask_client, is_modern
from onhand.mcp.surface import RequestContext
from onhand.mcp.tool_settings import DESTRUCTIVE, READ, WRITE
from onhand.text import digest, one_line

CALL_TOOLS = {READ: "call_tool", WRITE: "call_tool_write", DESTRUCTIVE: "call_tool_destructive"}
EFFECTS = {READ: "only reads", WRITE: "changes something", DESTRUCTIVE: "may delete or overwrite something"}
HINTS = {  # the annotations of a tool of each kind
    READ: {"readOnlyHint": True, "destructiveHint": False},
    WRITE: {"readOnlyHint": False, "destructiveHint": False},
    DESTRUCTIVE: {"readOnlyHint": False, "destructiveHint": True},
}
MAX_SHOWN_CHARS = 2_000  # of the arguments in a question
QUESTION, DECISION, YES, NO = "onhand/permission", "decision", "allow", "refuse"
_FORM: Any = {
    "type": "object",
    "properties": {DECISION: {"type": "string", "title": "Decision", "enum": [YES, NO]}},
    "required": [DECISION],
}
_ASKED, _ALLOWED = "asked", "allowed"
MAX_OPEN_CALLS = 10_000  # that wait for an answer; the oldest are asked about again


def kind_of(annotations: Mapping[str, Any]) -> str:
    """Return the kind of a tool by its annotations; one without any may do everything."""
    is_destructive = annotations.get("destructiveHint")
    if annotations.get("readOnlyHint") is True and is_destructive is not True:
        return READ
    return WRITE if is_destructive is False else DESTRUCTIVE


def check_call_tool(name: str, annotations: Mapping[str, Any], kind: str) -> None:
    """Raise ToolError if a tool was called with the call tool of another kind."""
    actual = kind_of(annotations)
    if actual != kind:
        raise ToolError(f"{name} {EFFECTS[actual]}. Call it with {CALL_TOOLS[actual]}, not with {CALL_TOOLS[kind]}.")


class PermissionRequests:
    """Asks the user of a client to permit single calls.

    A client of the modern era gets the question as a result and calls again with the answer. What it returns to us
    begins with a token that is good for one request with the tool and arguments that were asked about.
    """

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[str, str]] = OrderedDict()  # token → stage, digest of the call

    async def request(
        self, ctx: RequestContext, params: types.CallToolRequestParams, kind: str
    ) -> types.CallToolRequestParams | types.InputRequiredResult:
        """Return the parameters to forward if the call is permitted, or the question for a client of the modern era.

        Raise ToolError if the user refuses, or if the client cannot ask.
        """
        name = params.name
        question = types.ElicitRequest(params=_make_form(params, kind))
        if not _can_ask(ctx):
            raise ToolError(
                f"{name} needs the user's permission for each call, and this client cannot ask for it. Tell the user: "
                f"`onhand mcp policy {name.partition('__')[0]}` shows how to change that."
            )
        if not is_modern(ctx.protocol_version):
            _require_permission(name, await ask_client(ctx, question))
            return params
        stage, state = self._redeem(params)
        if stage == _ALLOWED:  # in an earlier round; this one answers the server
            return params.model_copy(update={"request_state": state or None})
        if stage == _ASKED:
            _require_permission(name, (params.input_responses or {}).get(QUESTION))
            return params.model_copy(update={"input_responses": None, "request_state": None})
        return types.InputRequiredResult(input_requests={QUESTION: question}, request_state=self._issue(_ASKED, params))

    def remember(
        self, result: types.InputRequiredResult, params: types.CallToolRequestParams
    ) -> types.InputRequiredResult:
        """Return what a server asks during a call, such that the call remains permitted in the next round."""
        state = self._issue(_ALLOWED, params) + (result.request_state or "")
        return result.model_copy(update={"request_state": state})

    def _issue(self, stage: str, params: types.CallToolRequestParams) -> str:
        """Return the beginning of a state that permits one more request of a call."""
        token = token_urlsafe(18)
        self._open[token] = stage, _digest(params)
        while len(self._open) > MAX_OPEN_CALLS:
            self._open.popitem(last=False)
        return f"{token}:"

    def _redeem(self, params: types.CallToolRequestParams) -> tuple[str, str]:
        """Return the stage that a call has reached, once for each token, and the rest of its state."""
        token, _, rest = (params.request_state or "").partition(":")
        stage, call = self._open.get(token, ("", ""))
        if call != _digest(params):
            return "", ""
        del self._open[token]
        return stage, rest


def _digest(params: types.CallToolRequestParams) -> str:
    return digest(json.dumps([params.name, params.arguments], sort_keys=True).encode())


def _make_form(params: types.CallToolRequestParams, kind: str) -> types.ElicitRequestFormParams:
    text = json.dumps(params.arguments, ensure_ascii=False)
    shown = one_line(text, MAX_SHOWN_CHARS)
    cut = f" (cut; {len(text):,} characters in total)" if len(text) > MAX_SHOWN_CHARS else ""
    message = f"Allow a call of {params.name}, which {EFFECTS[kind]}?\nArguments: {shown}{cut}"
    return types.ElicitRequestFormParams(message=message, requested_schema=_FORM)


def _can_ask(ctx: RequestContext) -> bool:
    offered = ctx.session.client_capabilities
    asks = offered.elicitation if offered else None
    has_form = asks is not None and (asks.form is not None or asks.url is None)  # without either, it means forms
    return has_form and (is_modern(ctx.protocol_version) or ctx.session.can_send_request)


def _require_permission(name: str, answer: Any) -> None:
    given = answer.content if isinstance(answer, types.ElicitResult) and answer.action == "accept" else None
    if (given or {}).get(DECISION) != YES:
        raise ToolError(f"The user did not permit this call of {name}. Ask the user what to do instead.")
