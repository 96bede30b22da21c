"""Guards separate questions that similarity alone would confuse."""

from itertools import combinations, product

import pytest

from onhand.cache.guards import ADJECTIVES, OPPOSED, PREFIXES, SUFFIXES, _degrees, contradict, disagreement
from requirements import requirement

pytestmark = requirement("cache.guards")


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("refund 10 USD", "refund 1000 USD", "different numbers"),
        ("report for 2025", "report for 2026", "different numbers"),
        ("report for 2025", "the report", "different numbers"),
        ("what happens in step two", "what happens in step three", "different numbers"),
        ("is 1.5 enough", "is 15 enough", "different numbers"),
        ("pay 1,000", "pay 1", "different numbers"),
        ("who won on 2025-01-02", "who won on 2025-02-01", "different names"),
        ("can I eat this", "can I not eat this", "one is negated"),
        ("why does it work", "why doesn't it work", "one is negated"),
        ("pizza with cheese", "pizza without cheese", "one is negated"),
        ("why do cats swim", "why dont cats swim", "one is negated"),
        ("what is the capital of France", "what is the capital of Germany", "different names"),
        ("weather in Paris tomorrow", "weather in London tomorrow", "different names"),
        ("how long do we keep traces in Esbjerg", "how long do we keep traces", "different names"),
        ("what does read_file do", "what does write_file do", "different names"),
        ("open src/a/b.py please", "open src/a/c.py please", "different names"),
        ("mail bob@x.org about it", "mail ann@x.org about it", "different names"),
        ('what does "on hand" mean', 'what does "on time" mean', "different quotations"),
        ("what is `x`", "what is `y`", "different quotations"),
        ("when was she born", "where was she born", "a different kind of question"),
        ("how many people live there", "how long do people live there", "a different kind of question"),
        ("can I sell my house", "should I sell my house", "a different kind of question"),
        ("show the last item", "show the second to last item", "opposite words"),
        ("prices over a decade", "prices over two decades", "different numbers"),
        ("a bilingual school", "a monolingual school", "opposite words"),
        ("the Russian embassy in China", "the Chinese embassy in Russia", "different names"),
        ("flights to India", "flights to Indiana", "different names"),
        ("how do I stop the server", "how do I not stop the server", "one is negated"),
        ("which foods should I avoid", "which foods should I eat", "one is negated"),
        ("how do I enable the cache", "how do I disable the cache", "opposite words"),
        ("is it legal to park here", "is it illegal to park here", "opposite words"),
        ("how to install it", "how to uninstall it", "opposite words"),
        ("the best film of all", "the worst film of all", "opposite words"),
        ("convert pdf to word", "convert word to pdf", "a different direction"),
        ("fly from rome to oslo", "fly from oslo to rome", "a different direction"),
        ("are cats better than dogs", "are dogs better than cats", "a different direction"),
        ("can a dog eat a cat", "can a cat eat a dog", "a different order of words"),
        ("who did brazil beat", "who beat brazil", "a different order of words"),
        ("which module imports the parser", "which module does the parser import", "a different order of words"),
        ("only admins can delete posts", "admins can only delete posts", "a different order of words"),
        ("copy a to b", "copy b to a", "a different order of words"),
        ("take it once a day", "take it twice a day", "different numbers"),
        ("how do I schedule a daily backup", "how do I schedule a weekly backup", "opposite words"),
        ("is aspirin safe for children", "is aspirin safe for adults", "opposite words"),
        ("convert the text to upper case", "convert the text to lower case", "opposite words"),
        ("who was the first president", "who was the second president", "opposite words"),
        ("what is on this week", "what is on next week", "opposite words"),
        ("sales of last year", "sales of this year", "opposite words"),
        ("did the build pass", "will the build pass", "opposite words"),
        ("do all birds fly", "do some birds fly", "opposite words"),
        ("how do I check in a branch", "how do I check out a branch", "opposite words"),
        ("my meeting is in the morning", "my meeting is in the afternoon", "opposite words"),
        ("make the button red", "make the button green", "opposite words"),
        ("¿cómo activo el modo oscuro?", "¿cómo desactivo el modo oscuro?", "opposite words"),
        ("sort it in alphabetical order", "sort it in reverse alphabetical order", "one is negated"),
        ("did the build succeed", "did the build fail", "opposite words"),
        ("the largest file", "the smallest file", "opposite words"),
        ("a thinner cable", "a thicker cable", "opposite words"),
        ("approve the request", "deny the request", "opposite words"),
        ("permit traffic from the internet", "block traffic from the internet", "opposite words"),
        ("how do I do it", "how do I undo it", "opposite words"),
        ("show all admins", "show all but admins", "one is negated"),
        ("list everyone but the owner", "list everyone and the owner", "one is negated"),
        ("flights other than these", "flights like these", "one is negated"),
        ("one million users", "one billion users", "different numbers"),
        ("a million users", "a thousand users", "different numbers"),
        ("a dozen eggs", "half a dozen eggs", "different numbers"),
        ("the price", "double the price", "different numbers"),
        ("the cost per user", "the cost per month", "different units"),
        ("sugar-free gum", "sugar gum", "one is negated"),
        ("indoor plants", "outdoor plants", "opposite words"),
        ("inhale the gas", "exhale the gas", "opposite words"),
        ("employer contribution", "employee contribution", "opposite words"),
        ("is it useful", "is it useless", "opposite words"),
        ("my invoices", "your invoices", "opposite words"),
        ("his account", "her account", "opposite words"),
        ("a and b", "a or b", "opposite words"),
        ("how deep is the pool", "how wide is the pool", "a different kind of question"),
        ("almost all users", "all users", "different limits"),
        ("only members may vote", "members may vote", "different limits"),
        ("who is older, Ann or Bob's son", "who is older, Ann's son or Bob", "a different order of words"),
        ("who follows ann", "whom does ann follow", "a different order of words"),
        ("what does !x mean", "what does x mean", "different names"),
        ("backup every mondays", "backup every sundays", "different dates"),
    ],
)
def test_questions_that_differ_in_a_particular_disagree(one: str, other: str, reason: str) -> None:
    assert disagreement(one, other) == reason
    assert disagreement(other, one) == reason


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I create a button?", "how can I make a button"),
        ("How do I get 10 USD back?", "how to get back 10.0 USD"),
        ("is 1,000 enough?", "Is 1000 enough?"),
        ("What can two people do?", "what can 2 people do"),
        ("walk 1 mile", "walk one mile"),
        ("Which one is best?", "Which is the best?"),
        ("which is faster, python or java", "which is faster, java or python"),
        ("Who is the President of France?", "who is president of france"),
        ("What is Trump's policy?", "What policy does Trump have?"),
        ("How Do I Bake Bread In An Oven?", "How do I bake bread in an oven?"),
        ("Why don't cats swim?", "Why do cats not swim?"),
        ("what dont cats eat", "what don't cats eat"),
        ("is it raining or not", "is it raining"),
        ("who took cookies from the cookie jar", "who took a cookie from the cookie jar"),
        ("What's the best way to learn?", "what is the best way to learn"),
        ("Tell me about the U.S. economy", "tell me about the u.s. economy"),
        ("a 17-year-old girl", "a 17 year old girl"),
        ("What is it like to live in São Paulo?", "how is living in Sao Paulo"),
        ("Kätzchen füttern", "Kätzchen füttern?"),
        ("how do I change my e-mail address", "how can I change my email address"),
        ("is there Wi-Fi", "is there wifi"),
        ("I am unable to log in", "I can't log in"),
        ("how do I revert the last commit", "how can I undo the last commit"),
        ("is the shop open on Sunday", "is the shop open on sundays"),
        ("one million users", "1,000,000 users"),
        ("flights from Rome to Oslo", "flights to Oslo from Rome"),
        ("meeting on 3 May", "meeting on May 3"),
        ("translate this to German", "translate this into German"),
        ("how much is 3 ft in cm", "how many cm is 3 ft"),
        ("how do I avoid jet lag", "what can I do to prevent jet lag"),
        ("how long does it take to learn Spanish", "how much time is needed to learn Spanish"),
        ("what is the longest river in Africa", "which African river is the longest"),
        ("when are taxes due in the US", "when are taxes due in the United States"),
        ("connect my phone to a TV", "connect my phone to a television"),
        ("where can I buy it", "where should I buy it"),
        ("prices over the past decade", "prices over the past ten years"),
        ("can you tell me if I should sell it", "should I sell it"),
        ("how do you reset your password", "how do I reset my password"),
        ("a thousand files", "1k files"),
        ("but how do I reset it", "how do I reset it"),
        ("", ""),
        ("?!", "…"),
        ("🙂", "🙃"),
    ],
)
def test_paraphrases_agree(one: str, other: str) -> None:
    assert disagreement(one, other) is None
    assert disagreement(other, one) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("report for 2025", "report for 2026"),
        ("weather in Paris tomorrow", "weather in London tomorrow"),
        ("what does read_file do", "what does write_file do"),
        ("can I eat this", "can I not eat this"),
        ('what does "on hand" mean', 'what does "on time" mean'),
        ("how do I enable the cache", "how do I disable the cache"),
        ("convert pdf to word", "convert word to pdf"),
    ],
)
def test_questions_contradict_if_they_exclude_each_other(one: str, other: str) -> None:
    assert contradict(one, other)
    assert contradict(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("how long do we keep traces in Esbjerg", "how long do we keep traces"),
        ("report for 2025", "the report"),
        ("how do I create a button", "how can I make a button"),
        ("", "?"),
    ],
)
def test_a_question_that_only_says_more_does_not_contradict(one: str, other: str) -> None:
    assert not contradict(one, other)
    assert not contradict(other, one)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    ["a" * 200_000, "1," * 100_000, '"' * 100_000, "a.b" * 50_000, "a_" * 50_000, "/" * 99_999, "a" + "'a" * 50_000],
)
def test_analysis_takes_linear_time(text: str) -> None:
    """The time limit of the tests is what a quadratic pattern would meet."""
    assert disagreement(text, text) is None


def test_opposites_exclude_each_other_in_every_degree() -> None:
    for one, other in (group.split("/") for group in ADJECTIVES):
        for degree in zip(_degrees(one), _degrees(other), strict=True):
            assert disagreement(*(f"show me the {word} one of them" for word in degree)) == "opposite words", degree
    for group, sides in ((PREFIXES, "{}sort"), (SUFFIXES, "care{}")):
        for one, other in (pair for part in group.split() for pair in combinations(part.split("/"), 2)):
            assert disagreement(f"show {sides.format(one)} now", f"show {sides.format(other)} now") == "opposite words"
    for ones, others in OPPOSED:
        for pair in product(ones.split(), others.split()):
            assert disagreement(*(f"{word} the request of the client" for word in pair)) is not None, pair
