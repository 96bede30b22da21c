"""Does the ledger count every token once, and know what a cache can give back?"""

from onhand.tools.loading import Ledger, TokenCounter, break_even
from requirements import requirement

BY_CHARS = TokenCounter("characters", len, "none")


@requirement("catalog.ledger")
def test_the_balance_adds_up_by_kind() -> None:
    ledger = Ledger(BY_CHARS)
    ledger.turn("x" * 100)
    ledger.enter("search", "q", "y" * 30)
    ledger.enter("schema", "t", "z" * 60)
    ledger.enter("retry", "t", "!" * 10)
    balance = ledger.balance(eager_tokens=1_100)
    assert balance.spent == {"search": 30, "schema": 60, "describe": 0, "retry": 10}
    assert balance.break_even_searches == 10
    assert round(balance.saved_share, 3) == 0.909


@requirement("catalog.ledger")
def test_the_stable_beginning_of_each_request_is_measured() -> None:
    ledger = Ledger(BY_CHARS)
    for text in ("head tail", "head tail", "head tails", "head", "other"):
        ledger.turn(text)
    assert [turn.stable_tokens for turn in ledger.turns] == [0, 9, 9, 4, 0]
    assert ledger.turn("öther").stable_bytes == 0
    assert ledger.turn("öthers").stable_bytes == 6


def test_without_a_search_there_is_no_break_even() -> None:
    assert Ledger(BY_CHARS).balance(10).break_even_searches is None
    assert break_even(100, 10, 0) is None
    assert break_even(100, 200, 10) == 0
