"""Is what is closed closed to git too, in the past and under every name?"""

import shutil
import subprocess
from pathlib import Path

import pytest

from onhand.actions.git import git
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from requirements import requirement

from .conftest import SECRET, Git, said

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@requirement("actions.closed-in-git", "actions.confined")
def test_what_is_closed_is_closed_in_the_past_too(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "copy.txt").write_text("TOKEN=old\n", encoding="utf-8")
    for words in ("diff", "log -p", "show HEAD~1", "diff HEAD", "diff --word-diff"):
        assert "TOKEN" not in said(workspace, *words.split())
    blob = subprocess.run(
        ["git", "rev-parse", "HEAD:.env"], cwd=repository, check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()
    for words in ("show HEAD:.env", "show HEAD:./.env", "show HEAD:.ENV", "blame .env", "diff .env", f"show {blob}"):
        with pytest.raises(InputError):
            said(workspace, *words.split())
    with pytest.raises(InputError):
        said(workspace, "diff", blob, "HEAD:f.txt")


@requirement("actions.closed-in-git", "actions.confined")
def test_no_spelling_of_a_name_or_a_revision_shows_what_is_closed(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    for name in ("Server.PEM", "sub/.ENV.local", "sub/.config/gcloud/token", "sub/.AWS/credentials"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("TOKEN=hidden\n", encoding="utf-8")
    run("add", "-A", "-f")
    run("commit", "-qm", "Third commit")

    def hash_of(word: str) -> str:
        words = ["git", "rev-parse", word]
        return subprocess.run(words, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    assert "TOKEN" not in said(workspace, "log", "-p")
    assert said(workspace, "log", "-S", "TOKEN=hid") == said(workspace, "log", "-G", "TOKEN=hid") == ""
    for words in (
        f"diff HEAD:f.txt..{hash_of('HEAD:Server.PEM')}",
        "diff HEAD:f.txt..HEAD:Server.PEM",
        f"show {hash_of('HEAD:sub/.AWS')}:credentials",
        "diff HEAD:sub HEAD:sub/.config",
        "show HEAD:./sub/.config//gcloud/token",
        "show HEAD:././sub/./.config/./gcloud/token",
        "show HEAD:./sub/.config//gcloud",
        "show HEAD@{0:x}:.env",  # to git, the first colon is between the braces
        f"show a{{-g{hash_of('HEAD')}:x}}:.env",
        f"show HEAD:x-g{hash_of('HEAD:Server.PEM')}",  # as `describe` names commits, which git takes at its end
        f"show HEAD:x-g{hash_of('HEAD:Server.PEM')[:7]}^{{blob}}",
        f"diff HEAD:x-g{hash_of('HEAD:Server.PEM').upper()} HEAD:f.txt",
    ):
        with pytest.raises(InputError):
            said(workspace, *words.split())
    assert "+two" in said(workspace, "diff", "HEAD~2:f.txt", "HEAD~1:f.txt")
    assert said(workspace, "show", "HEAD~2:f.txt") == "one\n"


@pytest.fixture
def renamed(repository: Path, run: Git) -> Path:
    """A repository in which a closed file became an open one, without what was secret in it."""
    lines = "".join(f"NAME_{number}=value\n" for number in range(20))
    (repository / ".env").write_text(f"{lines}TOKEN={SECRET}\n", encoding="utf-8")
    run("commit", "-qam", "With the secret")
    run("checkout", "-qb", "side")
    (repository / "side.txt").touch()
    run("add", "side.txt")
    run("commit", "-qm", "Beside")
    run("checkout", "-q", "main")
    run("merge", "-q", "--no-ff", "--no-commit", "side")
    run("mv", ".env", "env.sample")
    (repository / "env.sample").write_text(f"{lines}TOKEN=\n", encoding="utf-8")
    run("commit", "-qam", "Merged")
    run("tag", "merge")
    (repository / "side.txt").write_text("more\n", encoding="utf-8")
    run("commit", "-qam", "Later")
    return repository


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    "words",
    [
        *("show merge", "show -M merge", "show HEAD merge", "show merge~1..merge", "show -C --tags", "show -n 3"),
        *("show -2 HEAD", "show --max-count=9", "show --skip 1 -n 2", "show --reverse -5", "show --all"),
        *("log -p --first-parent", "log -p --follow -- env.sample", "diff merge~1 HEAD", "diff -M merge~1...merge"),
        *(
            "blame -C env.sample",
            "show --word-diff merge",
            "show --graph merge~1..merge",
            "show --stat -p -W merge",
            "show -R merge",
        ),
        *(
            "show --format=%B --raw -p merge",
            "show -U0 -w merge",
            "show --follow merge -- env.sample",
            "show -G . merge",
        ),
        *(
            "show -m merge",
            "log -mp -C1%",
            "show -m --find-renames=1% merge",
            "log -p --find-copies --full-diff env.sample",
        ),
        *("diff --no-prefix -M1% merge~1 merge", "diff --patience --patch-with-stat -C1% merge~1 HEAD"),
    ],
)
def test_what_was_closed_under_another_name_does_not_come_to_light(workspace: Workspace, words: str) -> None:
    assert SECRET not in said(workspace, *words.split())


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize("words", ["show", "show -C", "show -n 3", "show --word-diff -M", "show -W HEAD~1..HEAD"])
def test_what_was_closed_before_it_was_renamed_does_not_come_to_light(
    workspace: Workspace, renamed: Path, run: Git, words: str
) -> None:
    run("mv", "env.sample", ".env")
    with (renamed / ".env").open("a", encoding="utf-8") as file:
        file.write(SECRET)
    run("commit", "-qam", "Closed")
    run("mv", ".env", "env.sample")
    (renamed / "env.sample").write_text((renamed / "env.sample").read_text().replace(SECRET, ""), encoding="utf-8")
    run("commit", "-qam", "Opened")
    text = said(workspace, *words.split())
    assert SECRET not in text
    assert "rename from .env" in text


@requirement("actions.git-read-only")
def test_a_commit_that_is_no_merge_is_shown_with_what_was_renamed(
    workspace: Workspace, repository: Path, run: Git
) -> None:
    run("mv", "sub/ok.txt", "sub/moved.txt")
    run("commit", "-qm", "Moved")
    for words in ("show HEAD", "show -n 2", "show HEAD~1..HEAD"):
        assert "rename from sub/ok.txt" in said(workspace, *words.split())


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize(
    ("closed", "name"),
    [
        ("my secrets.txt", "My Secrets.txt"),
        ("secret.txt  ", "secret.txt"),
        ("Übung/", "übung/x.txt"),
        ("Übung.md", "u\u0308bung.md"),
        ("U\u0308bung.md", "übung.md"),
        ("日本.txt", "日本.txt"),
        ("secret?.txt", "secretü.txt"),
        ("[a-c]x.txt", "BX.txt"),
        ("[]a]x.txt", "]x.txt"),
        ("\\secret.txt", "SECRET.txt"),
        ('say "no".txt', 'say "no".txt'),
        ("**/# this/", "a/# this/x.txt"),
        ("straße.txt", "STRASSE.txt"),
        (".env.d", "sub/.env.d/.env.example"),
    ],
)
def test_a_pattern_of_any_form_closes_to_git_too(root: Path, run: Git, closed: str, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(SECRET, encoding="utf-8")
    run("init", "-q")
    run("add", "-A", "-f")
    run("commit", "-qm", "All")
    workspace = Workspace(root, deny=[closed])
    with pytest.raises(InputError, match="closed"):
        workspace.place(name)
    text = said(workspace, "log", "-p")
    assert SECRET not in text
    assert "+ok" in text


@requirement("actions.closed-in-git")
def test_what_the_user_opens_by_its_name_is_open_to_git_too(repository: Path) -> None:
    assert "+TOKEN=new" in git(Workspace(repository, allow=[".env"]), ["diff"]).text
    assert "+TOKEN=new" in git(Workspace(repository, allow=[".e*/"]), ["diff", ".env"]).text
    for others in (["sub/"], ["*.pem"], ["env"], ["[.]envx"], [".e*", "!.env"]):
        assert "TOKEN" not in git(Workspace(repository, allow=others), ["diff"]).text


@requirement("actions.closed-in-git", "actions.confined")
def test_a_pattern_that_git_cannot_be_told_is_said_to_be_one(repository: Path) -> None:
    with pytest.raises(InputError, match="shorter pattern"):
        git(Workspace(repository, deny=["x" * 1_000]), ["log", "-p"])


@requirement("actions.closed-in-git", "actions.confined")
@pytest.mark.parametrize(
    ("closed", "name"),
    [
        *(("app/Main/private", "main"), ("/app/main/private/*", "main"), ("app/*/private/", "main")),
        *(("app/**/private", "main"), ("app/m\\ain/priv*", "main"), ("private", "main"), ("app/#1/private", "#1")),
    ],
)
def test_what_is_closed_from_the_workspace_on_is_closed_in_a_repository_further_down(
    root: Path, run: Git, closed: str, name: str
) -> None:
    top = root / "app" / name
    (top / "private").mkdir(parents=True)
    (top / "private" / "x.txt").write_text(SECRET, encoding="utf-8")
    (top / "open.txt").write_text("for everybody\n", encoding="utf-8")
    run("init", "-q", cwd=top)
    run("add", "-A", cwd=top)
    run("commit", "-qm", "Both", cwd=top)
    for workspace, path in (
        (Workspace(root, deny=[closed]), f"app/{name}"),
        (Workspace(top, deny=[closed], project=str(root)), "."),
    ):
        text = git(workspace, ["log", "-p"], path).text
        assert SECRET not in text
        assert "+for everybody" in text
