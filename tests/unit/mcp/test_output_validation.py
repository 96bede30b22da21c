"""Is structured content checked against its schema, whatever a server wrote into both?"""

import anyio
import pytest

from requirements import requirement
from unit.mcp.conftest import Behind, Fronted
from unit.mcp.test_gateway import ERAS, text_of

NO_FIT = "structured content that does not fit its output schema"


@requirement("mcp.faithful")
@ERAS
@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        ("number", f'p: number returned {NO_FIT}: word: the value is not of type "integer"'),
        ("slow", f'p: slow returned {NO_FIT}: word: the value does not match "^(a+)+$"'),
        ("none", "p: none has an output schema but returned no structured content"),
    ],
)
def test_a_result_that_does_not_fit_its_schema_is_an_error_of_one_line(
    mode: str, tool: str, wrong: str, behind: Behind, fronted: Fronted
) -> None:
    async def main() -> None:
        async with fronted(behind("p", "promising"), mode=mode) as (_, client):
            result = await client.call_tool("call_tool", {"name": f"p__{tool}", "arguments": {"letters": 100_000}})
            assert result.is_error
            assert text_of(result) == wrong

    anyio.run(main)


@requirement("mcp.dead-upstreams-are-harmless")
@ERAS
def test_a_result_that_is_too_expensive_to_check_passes_unchecked(mode: str, behind: Behind, fronted: Fronted) -> None:
    async def main() -> None:
        async with fronted(behind("p", "promising"), mode=mode) as (_, client):
            for name in ("kept", "forked"):
                result = await client.call_tool("call_tool", {"name": f"p__{name}"})
                assert not result.is_error
                assert result.structured_content == {"word": "aaa!"}

    anyio.run(main)
