"""What the loop itself costs: fifty calls of a tool that does nothing, beside pydantic-ai and openai-agents.

    python -m benchmarks.loop [--rounds 40] [--peers DIR]

CPU time of a whole run (ask, run fifty calls of one turn, ask again) divided by its calls: the median of rounds in
which all take turns, in one process. Arguments are checked against the tool's types by all three. `async` is a
coroutine; `sync` a plain function, which all three run in a thread. With --peers the other two are installed into an
environment below DIR, once, and all three are measured there; without it only ours is. Lower is better.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onhand import Agent, Call, Tool, Toolbox
from onhand.agent.approval import Approval
from onhand.agent.models.scripted import ScriptedModel
from onhand.formats.message import Message

ROOT = Path(__file__).parents[1]
PACKAGES = ("pydantic-ai-slim==2.66.0", "openai-agents==0.24.0", "pyyaml", "jsonschema-rs")
CALLS = 50
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
Run = Callable[[], Any]


def ours(kind: str) -> Run:
    """This package: checked arguments, approval, and a listener."""

    async def later(arguments: dict[str, Any]) -> str:
        return "ok"

    handler = later if kind == "async" else lambda _: "ok"
    tool = Tool("noop", "Do nothing.", SCHEMA, handler, read_only=True)
    turn = Message("assistant", "", tuple(Call("noop", {"n": n}, str(n)) for n in range(CALLS)))

    def run() -> None:
        heard: list[Any] = []
        agent = Agent(ScriptedModel([turn, "done"]), Toolbox([tool]), approval=Approval(), listeners=[heard.append])
        outcome = asyncio.run(agent.run("go"))
        assert outcome.text == "done"
        assert sum(result.ok for result in agent.messages[2].results) == CALLS

    return run


def pydantic_ai(kind: str) -> Run:
    """pydantic-ai with its own model for tests."""
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: list[Any], info: Any) -> Any:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("noop", {"n": n}, str(n)) for n in range(CALLS)])

    agent = Agent(FunctionModel(answer))

    async def later(n: int) -> str:
        """Do nothing."""
        return "ok"

    def at_once(n: int) -> str:
        """Do nothing."""
        return "ok"

    agent.tool_plain(later if kind == "async" else at_once, name="noop")

    def run() -> None:
        result = asyncio.run(agent.run("go"))
        assert result.output == "done"
        assert len(result.all_messages()[2].parts) == CALLS

    return run


def openai_agents(kind: str) -> Run:
    """openai-agents with a model of two answers, and without its tracing."""
    from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class TwoAnswers(Model):  # type: ignore[misc]
        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(input, list) and len(input) > 1:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                output: list[Any] = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            else:
                output = [
                    ResponseFunctionToolCall(
                        call_id=str(n), name="noop", arguments=json.dumps({"n": n}), type="function_call"
                    )
                    for n in range(CALLS)
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *rest: Any, **named: Any) -> Any:
            raise NotImplementedError

    async def later(n: int) -> str:
        """Do nothing."""
        return "ok"

    def at_once(n: int) -> str:
        """Do nothing."""
        return "ok"

    tool = function_tool(later if kind == "async" else at_once, name_override="noop")
    agent = Agent(name="a", tools=[tool], model=TwoAnswers())

    def run() -> None:
        result = asyncio.run(Runner.run(agent, "go"))
        assert result.final_output == "done"
        assert sum(item.type == "tool_call_output_item" for item in result.new_items) == CALLS

    return run


FRAMEWORKS: dict[str, Callable[[str], Run]] = {
    "onhand": ours,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
}


def make_runs(kind: str) -> dict[str, Run]:
    """The frameworks that are installed."""
    found: dict[str, Run] = {}
    for name, make in FRAMEWORKS.items():
        try:
            found[name] = make(kind)
        except ImportError:
            continue
    return found


def measure(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Microseconds of CPU per call, by framework; all of them see the same moments of the machine."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 2):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            if number >= 2:  # the first ones import and compile
                times[name].append((time.process_time() - begin) / CALLS * 1e6)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--peers", metavar="DIR")
    arguments = parser.parse_args(argv)
    if arguments.peers:
        return _among_peers(Path(arguments.peers).absolute() / "loop", arguments.rounds)
    print(f"{'':<16}{'async':>14}{'sync':>14}   µs of CPU per call, and as a multiple of ours")
    rows: dict[str, dict[str, float]] = {}
    for kind in ("async", "sync"):
        for name, cost in measure(make_runs(kind), arguments.rounds).items():
            rows.setdefault(name, {})[kind] = cost
    for name, costs in rows.items():
        cells = [f"{cost:8.0f} {cost / rows['onhand'][kind]:4.1f}x" for kind, cost in costs.items()]
        print(f"{name:<16}{''.join(f'{cell:>14}' for cell in cells)}")
    if len(rows) == 1:
        print("(the other two are measured with --peers DIR)")
    return 0


def _among_peers(environment: Path, rounds: int) -> int:
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (environment / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (environment / "complete").touch()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [str(python), "-m", "benchmarks.loop", "--rounds", str(rounds)]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
