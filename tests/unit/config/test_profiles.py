"""Profiles are tables with names of the user's choice, and a clone's need trust."""

import pytest

from onhand.errors import ConfigError
from requirements import requirement

from .conftest import World

EVERYTHING = ("*",)


@requirement("mcp.profiles")
def test_a_profile_offers_everything_that_it_does_not_restrict(world: World) -> None:
    world.say_as_user('[profiles.review]\nservers = ["git"]\n[profiles.none]\ntools = []\n[profiles.all]\n')
    profiles = world.load().profiles
    assert list(profiles) == ["all", "none", "review"]
    assert profiles["review"] == (("git",), EVERYTHING, EVERYTHING, "")
    assert profiles["none"] == (EVERYTHING, (), EVERYTHING, "")
    assert profiles["all"] == (EVERYTHING, EVERYTHING, EVERYTHING, "")


@requirement("mcp.profiles")
def test_a_profile_of_a_project_exists_only_once_the_project_is_trusted(world: World) -> None:
    world.say('[profiles.theirs]\nservers = ["git"]\ncorpora = []\n')
    untrusted = world.load()
    assert dict(untrusted.profiles) == {}
    assert any("profiles.theirs.servers ('git') is ignored" in warning for warning in untrusted.warnings)
    world.trust()
    assert world.load().profiles["theirs"] == (("git",), EVERYTHING, (), "")


@requirement("mcp.profiles")
def test_a_project_can_narrow_a_profile_of_the_user_and_widens_it_only_with_trust(world: World) -> None:
    world.say_as_user('[profiles.review]\nservers = ["git", "github"]\ntools = ["git__*"]\n')
    world.say('[profiles.review]\nservers = ["git"]\ntools = ["*"]\n')
    assert world.load().profiles["review"][:2] == (("git",), ("git__*",))
    world.trust()
    assert world.load().profiles["review"][:2] == (("git",), ("*",))


@requirement("mcp.profiles")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[profiles."a b"]\n', "'a b' cannot name a profile: use up to 48 letters, digits, - and _"),
        ('[profiles."a.b"]\n', "'a.b' cannot name a profile"),
        ("[profiles]\nreview = 5\n", "profiles.review is 5; expected a table: [profiles.review]"),
        ("profiles = 5\n", "profiles is 5; expected a table: [profiles]"),
        ('[profiles.review]\nserver = ["git"]\n', "did you mean 'profiles.review.servers'?"),
        ('[profiles.review]\nservers = "git"\n', "profiles.review.servers is 'git'; expected a list"),
        ('[profiles.review]\ntoken_env = "a token"\n', "profiles.review.token_env is not valid"),
    ],
)
def test_a_profile_that_cannot_be_meant_is_an_error(text: str, problem: str, world: World) -> None:
    world.say_as_user(text)
    with pytest.raises(ConfigError) as error:
        world.load()
    assert problem in str(error.value)


def test_the_environment_overrides_a_profile_that_exists(world: World) -> None:
    world.say_as_user('[profiles.review]\nservers = ["git"]\n')
    assert world.load(ONHAND_PROFILES_REVIEW_SERVERS="github").profiles["review"].servers == ("github",)
