import pytest

from onhand.cli.main import NOUNS
from requirements import requirement

from .conftest import Run


@requirement("cli.help")
def test_the_bare_command_prints_what_it_can_do(run: Run) -> None:
    done = run()
    assert (done.code, done.err) == (0, "")
    assert all(f"    {noun} " in done.out for noun in NOUNS)


@requirement("cli.usage-error")
@pytest.mark.parametrize(
    ("words", "said", "where"),
    [
        (["tools", "search", "--nope", "x"], "unknown option '--nope' (", "onhand tools search"),
        (["tools", "search", "--catlog", "f", "x"], "'--catlog': did you mean '--catalog'?", "onhand tools search"),
        (["tools", "search", "--catlog=f", "x"], "'--catlog': did you mean '--catalog'?", "onhand tools search"),
        (["tools", "--nope", "search", "x"], "unknown option '--nope'", "onhand tools"),
        (["docs", "filter", "--autor", "x"], "'--autor': did you mean '--author'?", "onhand docs filter"),
        (["init", "--nope"], "unknown option '--nope' (", "onhand init"),  # which is not nearly --force
        (["sandbox", "run", "ls", "--color"], "'--color': put -- before a command that", "onhand sandbox run"),
        (["doctor", "-z", "x"], "unexpected argument: '-z' 'x'", "onhand doctor"),
        (["--nope"], "unknown option '--nope'", "onhand"),
    ],
)
def test_what_is_unknown_is_refused_with_the_usage_of_the_command_that_does_not_know_it(
    run: Run, words: list[str], said: str, where: str
) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"usage: {where} [-h]")
    assert said in done.err
    assert f"(see {where} --help)" in done.err


@requirement("cli.usage-error")
@pytest.mark.parametrize("noun", NOUNS)
def test_every_command_refuses_an_unknown_option_by_itself(run: Run, noun: str) -> None:
    done = run(noun, "--surely-unknown")
    assert done.code == 2
    assert f"unknown option '--surely-unknown' (see onhand {noun} --help)" in done.err


@requirement("cli.usage-error")
def test_an_option_may_still_be_shortened_and_a_text_may_begin_as_one_does(run: Run) -> None:
    assert run("--versio").code == 0
    assert run("context", "search", "--js", "--force is a flag").code == 0
    assert run("context", "search", "--json", "--", "--force").code == 0
