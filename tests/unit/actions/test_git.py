"""Does git only read, and say what it is asked for?"""

import os
import re
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from onhand.actions import git_isolation
from onhand.actions.git import run_git
from onhand.actions.workspace import Workspace
from onhand.errors import InputError
from patience import more_and_more
from requirements import requirement

from .conftest import Git, said

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


READ = [
    ("status -s", " M .env\n M f.txt\n?? new.txt\n"),
    ("diff -U0 -- f.txt", "@@ -2,0 +3 @@ two\n+three\n"),
    ("diff f.txt", "+three\n"),
    ("diff --name-only HEAD~1..HEAD", "f.txt\n"),
    ("diff --stat HEAD~1", "f.txt"),
    ("log --format=%s", "Second commit\nFirst commit\n"),
    ("log -n 1 --pretty=format:%an:%s", "somebody:Second commit"),
    ("log -1 --oneline", "Second commit\n"),
    ("log -n1 --format=%s -- f.txt", "Second commit\n"),
    ("log --format=%s main..feature/x-y_z.1", ""),
    ("log --format=%s feature/x-y_z.1", "First commit\n"),
    ("log --format=%s ..main~1", ""),
    ("diff --name-only ..feature/x-y_z.1", "f.txt\n"),
    ("log --format=%s ...feature/x-y_z.1", "Second commit\n"),
    ("log --format=%s ..@", ""),
    ("log --format=%s --author=nobody", ""),
    ("log --format=%s -S two", "Second commit\n"),
    ("show --format=%s --name-status HEAD", "Second commit\n\nM\tf.txt\n"),
    ("show HEAD~1:f.txt", "one\n"),
    ("branch", "  feature/x-y_z.1\n* main\n"),
    ("branch --show-current", "main\n"),
    ("branch --contains HEAD", "* main\n"),
    ("branch --merged main", "  feature/x-y_z.1\n* main\n"),
    ("branch --merged", "  feature/x-y_z.1\n* main\n"),
    ("branch --no-merged -a", ""),
    ("status -sb", "## main\n M .env\n"),
    ("status -s -u", "?? new.txt\n"),
    ("status -s -uno", " M f.txt\n"),
    ("status -s -u new.txt", "?? new.txt\n"),
    ("status --porcelain=v2", " f.txt\n? new.txt\n"),
    ("ls-files", ".env\nf.txt\nsub/ok.txt\n"),
    ("ls-files --others --exclude-standard", "new.txt\n"),
    ("ls-files sub", "sub/ok.txt\n"),
    ("blame -s -L 2,2 HEAD -- f.txt", "2) two\n"),
    ("blame f.txt", "three\n"),
    ("blame -s -L 3, f.txt", "3) three\n"),
    ("show --format= --name-only HEAD", "f.txt\n"),
    ("show --quiet --format=%s HEAD", "Second commit\n"),
    ("diff --color=never -U0", "+three\n"),
    ("diff --stat=80,40 --histogram HEAD~1 -- f.txt", "f.txt | 2 ++\n"),
    ("diff -pw --no-prefix f.txt", "+++ f.txt\n"),
    ("diff --word-diff=porcelain f.txt", "+three\n"),
    ("diff -M90% --name-status HEAD~1 HEAD", "M\tf.txt\n"),
    ("--no-pager log -1 --format=%s", "Second commit\n"),
    ("log -1 --decorate=short --format=%C(auto)%s%Creset%x2c%an", "Second commit,somebody\n"),
    ("log -1 --date=format:no%% --format=%Cred%ad%C(bold)", "no%\n"),
    ("log -1 --date=iso8601-strict --format=%ad", "T"),
    ("show HEAD:", "f.txt\nsub/\n"),
    ("branch -av", "* main "),
    ("branch --format=%(refname:short)=%(subject)", "main=Second commit\n"),
    ("branch --no-contains main", "  feature/x-y_z.1\n"),
    ("status -bs --ignored=matching", "## main\n"),
    ("status --porcelain=2", "? new.txt\n"),
    ("ls-files -mo --exclude-standard", "new.txt\n"),
    ("ls-files --error-unmatch f.txt", "f.txt\n"),
    ("blame -CC -s -L /two/,+1 f.txt", "2) two\n"),
    ("blame -s --abbrev=10 --ignore-rev HEAD -L2,-1 f.txt", "2) two\n"),
]


@requirement("actions.git-read-only", "actions.plain-functions")
@pytest.mark.usefixtures("repository")
def test_the_repository_is_read(workspace: Workspace) -> None:
    for words, expected in READ:
        assert expected in said(workspace, *words.split()), words


REFUSED: list[list[str]] = [
    [],
    ["push", "--receive-pack=touch x"],
    ["commit", "-m", "x"],
    ["init", "../outside"],
    ["add", "../outside/secret.txt"],
    ["reset", "--hard"],
    ["clone", "ext::sh -c touch% x", "y"],
    ["checkout", "--", "f.txt"],
    ["checkout", "-b", "x"],
    ["config", "--list"],
    ["st"],
    ["--exec-path=/tmp", "status"],
    ["--git-dir=/tmp/evil", "status"],
    ["--work-tree=/", "status"],
    ["-C", "/", "status"],
    ["-c", "core.fsmonitor=touch x", "status"],
    ["diff", "--no-index", "/etc/passwd", "/dev/null"],
    ["diff", "/etc/passwd", "/dev/null"],
    ["diff", "--output=/tmp/x"],
    ["diff", "--output", "/tmp/x"],
    ["diff", "--ext-diff"],
    ["diff", "--text"],
    ["diff", "HEAD", "HEAD~1", "HEAD~1"],
    ["diff", "HEAD~1..HEAD", "HEAD"],
    ["log", "--textconv", "-p"],
    ["log", "--show-signature"],
    ["log", "--format=%G?"],
    ["log", "--format=%(trailers:key=x)"],
    ["log", "--format=%>(10)%s"],
    ["log", "--format=%C(always,red)%s"],
    ["log", "-L", "1,2:f.txt"],
    ["log", "HEAD^!"],
    ["log", "--color=always"],
    ["log", "-pz"],
    ["diff", "-pO/etc/passwd"],
    ["diff", "--stat=--output=x"],
    ["branch", "-aD", "main"],
    ["branch", "--format=%(contents)"],
    ["branch", "--format=%(describe)"],
    ["blame"],
    ["blame", "-L", "main", "f.txt"],
    ["diff", "HEAD:f.txt"],
    ["blame", "--", "f.txt", "sub/ok.txt"],
    ["blame", "-L1:--contents"],
    ["--no-pager"],
    ["--no-pager", "--no-pager", "log"],
    ["-p", "log"],
    ["log", "--outpu=x"],
    ["log", "-O/etc/passwd"],
    ["blame", "--contents", "/etc/passwd", "f.txt"],
    ["blame", "--ignore-revs-file=/etc/passwd", "f.txt"],
    ["ls-files", "-X", "/etc/passwd"],
    ["ls-files", "--exclude-from=/etc/passwd"],
    ["branch", "-D", "main"],
    ["branch", "-m", "x"],
    ["branch", "--edit-description"],
    ["branch", "--show-current", "new"],
    ["branch", "--", "new"],
    ["branch", "--contains=--edit-description"],
    ["branch", "--merged", "-D"],
    ["difftool", "-x", "touch x"],
    ["apply", "--unsafe-paths", "p"],
    ["archive", "--exec=x"],
    ["grep", "-O", "x"],
    ["log", "--help"],
    ["log", "HEAD..--output=x"],
    ["log", "HEAD\0x"],
    ["log", "--author=\ud800"],
    ["show", "HEAD:\udfff"],
    ["log", "$(id)"],
    ["branch", "feature/*"],
    ["log", ":/../../etc"],
    ["log", "--", ":/../../etc/passwd/../x"],
    ["show", ":(top)x"],
    ["log", "x" * 2000],
    ["log", "x" + "~111111" * 140 + "*"],  # no pattern of ours takes long to see it
    ["log", "x..x" + "^22" * 300 + "*"],
    ["log", "--format=" + "%x20" * 240 + "%C("],
    ["log", *["-1"] * 60],
    ["log", "-n", "ten"],
    ["log", "-n"],
    ["show", "HEAD:../../x"],
    ["status", "../outside"],
    ["log", "--", "/etc/passwd"],
]


@requirement("actions.git-read-only", "actions.pattern-is-no-option")
def test_whatever_is_not_known_to_read_is_refused(workspace: Workspace, repository: Path, tmp_path: Path) -> None:
    before = sorted(os.listdir(tmp_path)), sorted(os.listdir(repository))
    for words in REFUSED:
        with pytest.raises(InputError) as refused:
            run_git(workspace, words)
        assert "usage:" not in str(refused.value), words
    assert (sorted(os.listdir(tmp_path)), sorted(os.listdir(repository))) == before


@requirement("actions.git-read-only")
def test_a_name_is_never_made_into_a_branch(workspace: Workspace, repository: Path) -> None:
    assert said(workspace, "branch", "new") == ""
    assert sorted(os.listdir(repository / ".git" / "refs" / "heads")) == ["feature", "main"]


@requirement("actions.git-read-only", "actions.confined")
def test_a_link_is_asked_about_as_what_git_has_of_it(workspace: Workspace, repository: Path, run: Git) -> None:
    for name, target in (("link", "f.txt"), ("out", "../outside/secret.txt"), ("gone", "nowhere"), (".netrc", "f.txt")):
        (repository / name).symlink_to(target)
    run("add", "-A", "-f")
    run("commit", "-qm", "Links")
    for name, target in (("link", "f.txt"), ("gone", "nowhere")):
        assert said(workspace, "log", "--format=%s", name) == "Links\n"
        assert said(workspace, "ls-files", f"../{name}", path="sub") == f"{name}\n"
        assert said(workspace, "blame", "-s", name).endswith(f" 1) {target}\n")
    for words in ("log {} --", "log -- {}", "log {}", "blame {}", "diff HEAD~1 -- {}"):
        for closed in (".netrc", "out"):
            with pytest.raises(InputError):
                said(workspace, *words.format(closed).split())
    (repository / "linked").symlink_to("sub")
    assert said(workspace, "ls-files", "linked/ok.txt") == "sub/ok.txt\n"


@requirement("actions.git-read-only")
@pytest.mark.parametrize("name", ["fix/#12-a=b", "größer", "v1,2%", "a@b+c.d-e_f", "user's", "fix(a&b)!", "a;b$c"])
def test_a_branch_of_any_ordinary_name_is_known(workspace: Workspace, repository: Path, run: Git, name: str) -> None:
    run("branch", name, "HEAD~1")
    assert said(workspace, "log", "--format=%s", name) == "First commit\n"
    assert said(workspace, "log", "--format=%s", f"{name}..main") == "Second commit\n"
    assert said(workspace, "show", f"{name}:f.txt") == "one\n"


@requirement("actions.git-read-only", "actions.closed-in-git")
def test_a_tag_is_shown_with_its_message_if_it_is_a_commits(workspace: Workspace, repository: Path, run: Git) -> None:
    run("tag", "-a", "-m", "First release", "v1", "HEAD~1")
    run("tag", "-a", "-m", "The same", "again", "v1")
    run("tag", "-a", "-m", "Not to be told", "closed", "HEAD:.env")
    assert "First release" in said(workspace, "show", "v1")
    text = said(workspace, "show", "--format=%s", "-s", "again")
    assert "The same" in text
    assert text.endswith("First release\nFirst commit\n")
    with pytest.raises(InputError, match="expected commit type"):
        said(workspace, "show", "closed")


@requirement("actions.git-read-only")
def test_names_are_told_as_other_tools_take_them(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "Übung.md").write_text("x\n", encoding="utf-8")
    (repository / "two\nlines").touch()
    (repository / "..\t\ttabs").touch()  # none of its parts leads out
    run("add", "-A", "-f")
    assert "\nÜbung.md\n" in said(workspace, "ls-files")
    assert "+++ b/Übung.md\n" in said(workspace, "diff", "--cached")
    assert '"two\\nlines"' in said(workspace, "ls-files")  # on one line
    assert '"..\\t\\ttabs"' in said(workspace, "ls-files")


@requirement("actions.git-read-only")
def test_what_is_a_path_and_a_revision_is_not_guessed_between(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "main").mkdir()
    with pytest.raises(InputError, match="main is both a revision and a path"):
        said(workspace, "log", "main")
    assert said(workspace, "log", "--format=%s", "main", "--") == "Second commit\nFirst commit\n"
    assert said(workspace, "log", "--", "main") == ""


@requirement("actions.git-read-only")
@pytest.mark.parametrize("name", ["main", "npm/@types/node", "fix/#12;a=b", "größer", "user's(a).remote"])
def test_a_branch_is_reported_with_what_it_follows(workspace: Workspace, repository: Path, run: Git, name: str) -> None:
    run("branch", "-m", name)
    run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    run("config", "--add", "remote.origin.fetch", "+refs/pull/*:refs/remotes/pull/*")
    run("config", f"branch.{name}.remote", "origin")
    run("config", f"branch.{name}.merge", f"refs/heads/{name}")
    run("update-ref", f"refs/remotes/origin/{name}", "HEAD~1")
    assert f"ahead of 'origin/{name}' by 1 commit" in said(workspace, "status")
    assert said(workspace, "log", "--format=%s", "@{upstream}..HEAD") == "Second commit\n"


@requirement("actions.git-read-only")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits the memory of another process")
def test_a_pattern_does_not_take_all_memory(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_isolation, "MAX_MEMORY_BYTES", 256 * 1024 * 1024)
    with pytest.raises(InputError, match=r"(?i)memory"):
        said(workspace, "log", "-E", "--grep=((((a{1,200}){1,200}){1,200}){1,200})")


@requirement("actions.git-read-only")
def test_a_path_that_a_revision_has_not_is_told_where_to_begin(workspace: Workspace, repository: Path) -> None:
    with pytest.raises(InputError, match="start at the repository's top"):
        said(workspace, "show", "HEAD:ok.txt", path="sub")


@requirement("actions.git-read-only")
def test_much_is_cut_and_said_so(workspace: Workspace, repository: Path, run: Git) -> None:
    (repository / "f.txt").write_text("line\n" * 50_000, encoding="utf-8")
    much = run_git(workspace, ["diff"])
    assert (much.is_cut, much.output[-1]) == (True, "\n")
    (repository / "long.txt").write_text("ab" + "漢" * 50_000, encoding="utf-8")
    run("add", "long.txt")
    run("commit", "-qm", "Long")
    long = run_git(workspace, ["show", "HEAD:long.txt"])
    assert (long.is_cut, long.output.strip("漢")) == (True, "ab")  # no half of a character


@requirement("actions.git-read-only")
def test_variables_of_the_machine_do_not_change_what_is_read(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_TRACE"):
        monkeypatch.setenv(name, str(tmp_path / "evil"))
    for name, variable in ((".gitconfig", "HOME"), ("git/config", "XDG_CONFIG_HOME")):
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).write_text(f"[diff]\n\texternal = touch {tmp_path}/evil\n", encoding="utf-8")
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    assert "+three" in said(workspace, "diff")
    assert not (tmp_path / "evil").exists()


@requirement("actions.git-read-only")
@pytest.mark.usefixtures("repository")
def test_what_git_complains_of_is_told_on_one_line(workspace: Workspace) -> None:
    for words, named in (
        ("log nowhere", "nowhere'; list branches with branch -a, and put paths after --"),
        ("show HEAD:none.txt", "none.txt"),
        ("blame -L 9,9 f.txt", "lines"),
    ):
        with pytest.raises(InputError, match=rf"^git \w+: [^\n]*{named}[^\n]*$"):
            said(workspace, *words.split())
    with pytest.raises(InputError, match=r"subcommand not allowed: \(none\)"):
        said(workspace)


@requirement("actions.git-read-only")
def test_what_is_damaged_is_named_where_it_is(workspace: Workspace, repository: Path) -> None:
    commit = (repository / ".git" / "refs" / "heads" / "main").read_text(encoding="ascii").strip()
    file = repository / ".git" / "objects" / commit[:2] / commit[2:]
    file.unlink()
    file.touch()
    with pytest.raises(InputError, match=rf"object file \.git/objects/{commit[:2]}/{commit[2:]} is empty"):
        said(workspace, "log")


@requirement("actions.git-read-only")
@pytest.mark.usefixtures("repository")
def test_a_path_is_only_a_path_to_git(workspace: Workspace) -> None:
    for words in ("ls-files f*", "ls-files -- *", "diff -- :f.txt", "log -p -- :(top)f.txt", "status -s -- :!f.txt"):
        assert said(workspace, *words.split()) == "", words


@requirement("actions.git-read-only")
def test_git_is_killed_when_it_takes_too_long(
    workspace: Workspace, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(repository / ".gitattributes")
    refusal = late(monkeypatch, "git diff", lambda: said(workspace, "diff", "HEAD~1", "HEAD"))
    assert re.match(r"git diff took longer than [0-9.]+ s: request less", refusal)


@requirement("actions.git-read-only")
@pytest.mark.usefixtures("repository")
def test_an_index_that_takes_too_long_is_not_called_damaged(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\ncase "$*" in *ls-files*) exec sleep 600;; esac\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    refusal = late(monkeypatch, "git ls-files", lambda: said(workspace, "status"))
    assert re.match(r"git ls-files took longer than [0-9.]+ s: request less", refusal)


def late(monkeypatch: pytest.MonkeyPatch, which: str, ask: Callable[[], object]) -> str:
    """The refusal when a command of git takes too long, and those before it do not."""
    for timeout_s in more_and_more(0.5):
        monkeypatch.setattr("onhand.actions.git_isolation.TIMEOUT_S", timeout_s)
        with pytest.raises(InputError) as refused:
            ask()
        if which in str(refused.value):
            break
    return str(refused.value)
