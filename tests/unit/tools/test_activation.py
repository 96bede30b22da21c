"""Do activated tools stay as long as they should, and go in the right order when there are too many?"""

from onhand.tools.activation import Activations, ActiveTool
from requirements import requirement


def ids(activations: Activations) -> list[str]:
    return [active.id for active in activations]


@requirement("catalog.activation-scopes")
def test_the_oldest_make_room_for_the_newest() -> None:
    activations = Activations(max_tokens=100)
    activations.add([ActiveTool("a", 40), ActiveTool("b", 40)])
    change = activations.add([ActiveTool("c", 40)])
    assert change.evicted == ("a",)
    assert ids(activations) == ["b", "c"]


@requirement("catalog.activation-scopes")
def test_a_tool_larger_than_the_budget_is_allowed_and_stands_alone() -> None:
    activations = Activations(max_tokens=100)
    activations.add([ActiveTool("a", 40)])
    change = activations.add([ActiveTool("huge", 1_000), ActiveTool("b", 10)])
    assert change.activated == ("huge",)
    assert change.left_out == ("b",)
    assert change.evicted == ("a",)


@requirement("catalog.activation-scopes")
def test_a_tool_larger_than_the_budget_stays_until_another_one_comes() -> None:
    activations = Activations(max_tokens=100)
    activations.add([ActiveTool("huge", 1_000)])
    assert activations.add([]).evicted == ()
    assert activations.add([ActiveTool("huge", 1_000)]).evicted == ()
    assert ids(activations) == ["huge"]
    assert activations.add([ActiveTool("b", 10)]).evicted == ("huge",)


@requirement("catalog.activation-scopes")
def test_better_tools_of_one_activation_win() -> None:
    change = Activations(max_tokens=100).add(
        [ActiveTool("best", 60), ActiveTool("second", 60), ActiveTool("third", 30)]
    )
    assert change.activated == ("best", "third")
    assert change.left_out == ("second",)


@requirement("catalog.activation-scopes")
def test_a_tool_that_is_requested_again_is_evicted_last() -> None:
    activations = Activations(max_tokens=100)
    activations.add([ActiveTool("a", 40), ActiveTool("b", 40)])
    change = activations.add([ActiveTool("a", 40), ActiveTool("c", 40)])
    assert change.already == ("a",)
    assert change.evicted == ("b",)
    assert ids(activations) == ["a", "c"]


@requirement("catalog.activation-scopes")
def test_the_end_of_a_turn_drops_only_tools_of_that_turn_and_a_longer_scope_wins() -> None:
    activations = Activations(max_tokens=None)
    activations.add([ActiveTool("a", 1, "turn"), ActiveTool("b", 1, "turn"), ActiveTool("c", 1, "session")])
    activations.add([ActiveTool("b", 1, "session"), ActiveTool("c", 1, "turn")])
    assert activations.end_turn() == ("a",)
    assert ids(activations) == ["b", "c"]
