"""Which names of a workspace are hidden from commands? `tests/contract` tries the whole table out."""

import pytest

from onhand.sensitive_names import is_hidden_from_commands


@pytest.mark.parametrize(
    "name",
    [
        *(".env", ".env.local", "server.pem", "id_ed25519", ".netrc", "a.key", "credentials.json", "kubeconfig"),
        *("service-account-prod.json", ".bash_history", "_netrc"),
    ],
)
def test_files_with_secrets_are_hidden(name: str) -> None:
    assert is_hidden_from_commands(name, "/w", is_directory=False)


@pytest.mark.parametrize(
    "name",
    [
        *(".env.example", ".env.sample", "environment.py", "id_ed25519.pub", "keys.py", "pem.txt", "monkey", "pem"),
        *("secrets.yml", "auth.json", ".yarnrc.yml", "gh", "config.json", ".ssh"),
    ],
)
def test_other_files_are_not_hidden(name: str) -> None:
    assert not is_hidden_from_commands(name, "/w", is_directory=False)


def test_a_name_of_several_parts_is_hidden_in_its_own_directory_alone() -> None:
    assert is_hidden_from_commands("config.json", "/w/a/.Docker", is_directory=False)
    assert is_hidden_from_commands("gh", "/w/.config", is_directory=True)
    assert not is_hidden_from_commands("gh", "/w/.config", is_directory=False)
    assert not is_hidden_from_commands("gh", "/w/other.config", is_directory=True)


def test_directories_and_files_are_distinguished() -> None:
    assert is_hidden_from_commands(".ssh", "/w", is_directory=True)
    assert not is_hidden_from_commands(".env", "/w", is_directory=True)  # a virtual environment, as some call it
    assert not is_hidden_from_commands("test.key", "/w", is_directory=True)
