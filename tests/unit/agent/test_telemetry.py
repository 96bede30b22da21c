"""Spans of runs, requests and calls contain names and counts, and no text of a conversation."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onhand.agent.events import Answered, Usage
from onhand.agent.loop import make_delegate_tool
from onhand.agent.models.scripted import Line, ScriptedModel
from onhand.agent.telemetry import AgentTelemetry
from onhand.agent.toolbox import Toolbox
from onhand.formats.message import Message
from onhand.project import Project, load_config
from onhand.tools import Tool
from requirements import requirement
from scripted_agent import EMPTY, Bench, calls

SOURCE = Path(__file__).parents[3] / "src"


@pytest.fixture
def spans() -> Any:
    pytest.importorskip("opentelemetry.sdk", reason="the SDK of OpenTelemetry is not installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    exporter.tracer = provider.get_tracer("test")  # type: ignore[attr-defined]
    return exporter


@requirement("agent.telemetry")
def test_a_run_has_spans_for_its_requests_and_calls(spans: Any, look: Tool) -> None:
    def fail(_: dict[str, Any]) -> str:
        raise ValueError("a secret word")

    lines: list[Line] = [Answered(calls("look", "fail"), "calls", Usage(30, 4, 20)), "a secret answer"]
    bench = Bench(lines, [look, Tool("fail", "Fail.", EMPTY, fail)])
    bench.agent.listeners.append(AgentTelemetry("m", spans.tracer))
    bench.run("a secret goal")
    finished = spans.get_finished_spans()
    assert sorted(span.name for span in finished) == [
        *("chat m", "chat m", "execute_tool fail", "execute_tool look", "invoke_agent"),
    ]
    by_name = {span.name: span for span in finished}
    run = by_name["invoke_agent"]
    assert all(span.parent.span_id == run.context.span_id for span in finished if span is not run)
    first = next(span for span in finished if span.name == "chat m")
    assert first.attributes["gen_ai.usage.input_tokens"] == 30
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 20
    assert by_name["execute_tool fail"].attributes["error.type"] == "tool_error"
    assert by_name["execute_tool look"].status.is_ok or not by_name["execute_tool look"].status.description
    assert "secret" not in "".join(span.to_json() for span in finished)


@requirement("agent.telemetry")
def test_a_sub_agents_spans_are_below_the_run_of_its_parent(spans: Any, look: Tool) -> None:
    toolbox = Toolbox([look])
    bench = Bench([calls("delegate", name="eye", task="Look."), calls("look"), "Seen.", "Done."], toolbox=toolbox)
    toolbox.add(make_delegate_tool(bench.agent, toolbox))
    bench.agent.listeners.append(AgentTelemetry("m", spans.tracer))
    bench.run()
    runs = [span for span in spans.get_finished_spans() if span.name == "invoke_agent"]
    child, parent = runs
    assert child.parent.span_id == parent.context.span_id


@requirement("agent.telemetry")
def test_a_run_that_fails_ends_its_span_with_the_reason(spans: Any) -> None:
    bench = Bench([Answered(Message("assistant", "no"), "refusal")])
    bench.agent.listeners.append(AgentTelemetry("m", spans.tracer))
    bench.run()
    assert spans.get_finished_spans()[-1].attributes["error.type"] == "refusal"


@requirement("agent.telemetry")
def test_telemetry_is_enabled_by_the_configuration(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry", reason="the otel extra is not installed")
    project = Project(load_config(str(tmp_path)))
    for wanted in (False, True):
        agent = project.agent(ScriptedModel(["Hi."]), settings=project.agent_settings({"telemetry": wanted}))
        assert any(isinstance(listener, AgentTelemetry) for listener in agent.listeners) is wanted
        assert asyncio.run(agent.run("go")).text == "Hi."
        assert agent.listener_failures == []


@requirement("agent.telemetry")
def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from onhand.agent.telemetry import AgentTelemetry\n"
        "try: AgentTelemetry('m')\n"
        "except Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.stdout == "telemetry needs the 'telemetry' extra: pip install 'onhand[telemetry]'\n"
