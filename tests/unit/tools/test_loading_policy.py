"""Does a policy load tools when it should, and say why?"""

import pytest

from onhand.errors import InputError
from onhand.tools.loading import DEFAULT_POLICY, ToolLoad, parse_policy
from requirements import requirement


@requirement("catalog.activation-threshold", "catalog.policies")
@pytest.mark.parametrize(
    ("rule", "load", "lazy"),
    [
        ("eager", ToolLoad(10**9, 10**6), False),
        ("lazy", ToolLoad(0, 0), True),
        ("definitions>=10%", ToolLoad(19_999, 50), False),
        ("definitions>=10%", ToolLoad(20_000, 50), True),
        ("definitions≥25 %", ToolLoad(20_000, 50, window_tokens=100_000), False),
        ("conversation>=10%", ToolLoad(77_000, 50, conversation_tokens=19_999), False),
        ("conversation>=10%", ToolLoad(77_000, 50, conversation_tokens=20_000), True),
        ("count>40", ToolLoad(0, 40), False),
        ("count>40", ToolLoad(0, 41), True),
        ("schema_tokens>16000", ToolLoad(16_000, 1), False),
        ("Schema_Tokens > 16000", ToolLoad(16_001, 1), True),
        ("definitions>=0.5%", ToolLoad(1_000, 1), True),
        ("definitions>=10%", ToolLoad(1, 1, window_tokens=0), True),
    ],
)
def test_each_policy_is_lazy_from_its_limit_on(rule: str, load: ToolLoad, lazy: bool) -> None:
    assert parse_policy(rule).decide(load).lazy is lazy


@requirement("catalog.policies")
def test_a_decision_has_its_numbers_and_its_limit() -> None:
    eager = DEFAULT_POLICY.decide(ToolLoad(13_364, 100))
    assert eager.policy == "definitions>=10%"
    assert eager.reason == "the definitions are 13,364 tokens, 6.7 % of the window, under the limit of 10 %"
    assert parse_policy("count>40").decide(ToolLoad(0, 41)).reason == "there are 41 tools, over the limit of 40"
    assert parse_policy("lazy").decide(ToolLoad(0, 0)).reason == "the policy is lazy"


@requirement("catalog.policies")
def test_what_is_at_its_limit_is_said_to_be_neither_over_nor_under_it() -> None:
    assert parse_policy("count>40").decide(ToolLoad(0, 40)).reason == "there are 40 tools, at the limit of 40"
    assert parse_policy("count>1").decide(ToolLoad(0, 1)).reason == "there is 1 tool, at the limit of 1"
    assert DEFAULT_POLICY.decide(ToolLoad(20_000, 9)).reason.endswith("10.0 % of the window, at the limit of 10 %")
    assert DEFAULT_POLICY.decide(ToolLoad(19_960, 9)).reason.endswith("9.98 % of the window, under the limit of 10 %")


@pytest.mark.parametrize(
    "rule",
    [
        *("eager", "lazy", "definitions>=12.5%", "conversation>=10%", "count>40", "schema_tokens>9"),
        *("count>1000000", "schema_tokens>123456789", "definitions>=0.125%", "count>999999999999.999"),
    ],
)
def test_a_policy_is_spelled_as_it_is_read(rule: str) -> None:
    assert str(parse_policy(rule)) == rule


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "auto",
        "eager>3",
        "count",
        "count>=40",
        "count>40%",
        "definitions>=10",
        "definitions>10%",
        "count>-1",
        "count>" + "9" * 40,
    ],
)
def test_a_rule_that_is_none_is_refused_with_those_there_are(rule: str) -> None:
    with pytest.raises(InputError, match="use eager, lazy, definitions>=10%"):
        parse_policy(rule)
