"""List, search, read and validate Agent Skills."""

from __future__ import annotations

import argparse

from onhand.cli import terminal
from onhand.cli.opening import open_project
from onhand.cli.parser import Parser, add_query, add_to_all, positive
from onhand.corpora.skill_files import SKILL_FILE
from onhand.record import to_json
from onhand.text import quantity
from onhand.tools.loading import estimated_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onhand.corpora.skills import SkillMatch, Skills

ALL_PROBLEMS = "onhand skills list --json"


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("verb", "VERB")
    verbs.add_parser("list", help="list every skill with its description and path")
    search = verbs.add_parser("search", help="find the skills that fit a task best")
    add_query(search, "skills (default: skills.limit)")
    search.add_argument("--references", action="store_true", help="search the reference files of skills instead")
    search.add_argument("--skill", metavar="NAME", help="search only the references of this skill")
    read = verbs.add_parser("read", help="show the instructions of a skill, or one of its files")
    read.add_argument("name", metavar="NAME", help="the skill")
    read.add_argument("--reference", metavar="PATH", help="a file inside the skill")
    read.add_argument("--section", metavar="HEADING", help="show only the part under this heading")
    validate = verbs.add_parser(
        "validate", help="check skills against the specification; exits with 1 if one is invalid"
    )
    validate.add_argument("names", metavar="NAME", nargs="*", help="check only these skills")
    validate.add_argument("--user", action="store_true", help="with --root, also check your own skills")
    catalog = verbs.add_parser("catalog", help="show the list of skills as it appears in the system prompt")
    catalog.add_argument(
        "--window",
        metavar="N",
        type=positive,
        help="fit the list to a context window of N tokens instead of catalog_max_chars",
    )
    add_to_all(verbs, "a project directory, a directory of skills, or a skill")


def run(arguments: argparse.Namespace) -> int:
    """Run the verb; a search without hits is a success."""
    is_project_only = arguments.verb == "validate" and arguments.root and not arguments.user
    project = open_project(arguments.root, {"skills.user": False} if is_project_only else None)
    skills = project.skills_of(arguments.root) if arguments.root else project.skills
    return _VERBS[arguments.verb](skills, arguments)


def _list(skills: Skills, arguments: argparse.Namespace) -> int:
    listed, problems = skills.all(), skills.problems()
    if arguments.json:
        found = [{**to_json(skill), "path": skill.path} for skill in listed]
        terminal.print_json({"skills": found, "problems": to_json(problems)})
        return 0
    terminal.warn_of(problems, ALL_PROBLEMS)
    for skill in listed:
        terminal.say(f"{terminal.join_lines(skill.name)}  {terminal.join_lines(skill.path)}", heading=True)
        terminal.say(f"   {terminal.join_lines(skill.description)}")
    terminal.say(quantity(len(listed), "skill") if listed else skills.why_empty() or "")
    return 0


def _search(skills: Skills, arguments: argparse.Namespace) -> int:
    query = " ".join(arguments.query)
    if arguments.references or arguments.skill:
        return _search_references(skills, query, arguments)
    result = skills.search(query, arguments.limit)
    if arguments.json:
        terminal.print_json(to_json(result))
        return 0
    terminal.warn_of(result.problems, ALL_PROBLEMS)
    terminal.warn(result.notes)
    for number, hit in enumerate(result.hits, 1):
        name, path = terminal.join_lines(hit.name), terminal.join_lines(hit.path)
        terminal.say(f"{number}. {name}  {path}  score {hit.score:.2f}", heading=True)
        terminal.say(f"   {terminal.join_lines(hit.description)}")
        for match in hit.matches:
            _print_match(match, arguments.explain)
        terminal.say()
    terminal.say(result.reason or f"{len(result.hits)} of {quantity(result.skills, 'skill')}")
    return 0


def _search_references(skills: Skills, query: str, arguments: argparse.Namespace) -> int:
    result = skills.search_references(query, arguments.skill, arguments.limit)
    if arguments.json:
        terminal.print_json(to_json(result))
        return 0
    terminal.warn(result.notes)
    for number, hit in enumerate(result.hits, 1):
        terminal.say(f"{number}. {terminal.join_lines(hit.skill)}  score {hit.match.score:.2f}", heading=True)
        _print_match(hit.match, arguments.explain)
        terminal.say()
    terminal.say(result.reason or quantity(len(result.hits), "section"))
    return 0


def _print_match(match: SkillMatch, explain: bool) -> None:
    place = f"{terminal.join_lines(match.path)}:{match.lines[0]}-{match.lines[1]}"
    where = "name and description" if match.kind == "skill" else f"{place}  {' › '.join(match.heading_path)}"
    terminal.say(f"   {match.score:8.4f}  {terminal.escape_newlines(where)}")
    if match.kind != "skill":
        terminal.say(f"             {terminal.join_lines(match.snippet)}")
    for layer in match.layers if explain else ():
        terminal.say(f"             {layer.name}: rank {layer.rank}, score {layer.score:.4f}, share {layer.share:.4f}")
        for contribution in layer.terms:
            terminal.say(f"             {contribution.score:8.4f}  {contribution.term}  in {contribution.field}")


def _read(skills: Skills, arguments: argparse.Namespace) -> int:
    if arguments.reference is not None or arguments.section is not None:
        file = skills.reference_content(arguments.name, arguments.reference or SKILL_FILE, arguments.section)
        if arguments.json:
            terminal.print_json(to_json(file))
        else:
            terminal.say(file.text)
        return 0
    reading = skills.read(arguments.name)
    if arguments.json:
        terminal.print_json(to_json(reading))
        return 0
    terminal.say(reading.text)
    if not (reading.references or reading.scripts or reading.files):
        return 0
    terminal.say()
    terminal.say("Other files", heading=True)
    rows = [(f"  {one.path}", one.problem or one.text) for one in reading.references]
    rows += [(f"  {script.path}", f"{script.qualified_name}  {script.description}") for script in reading.scripts]
    terminal.print_table(rows + [(f"  {path}", "") for path in reading.files])
    terminal.warn(reading.notes)
    return 0


def _validate(skills: Skills, arguments: argparse.Namespace) -> int:
    only = {skills.get(name).path for name in arguments.names}
    checked = [one for one in skills.validate() if not only or one.path in only]
    broken = sum(1 for one in checked if one.verdict.errors)
    if arguments.json:
        verdicts = [{"path": one.path, "valid": not one.verdict.errors, **to_json(one.verdict)} for one in checked]
        terminal.print_json({"skills": verdicts})
        return 1 if broken else 0
    for path, verdict in checked:
        terminal.say(f"{terminal.join_lines(path)}: {'invalid' if verdict.errors else 'valid'}")
        for text in verdict.errors:
            terminal.say(f"   error: {terminal.join_lines(text)}")
        for text in verdict.warnings:
            terminal.say(f"   warning: {terminal.join_lines(text)}")
    if not checked:
        terminal.say(skills.why_empty() or "There are no skills to check.")
    else:
        terminal.say(f"{len(checked) - broken} of {quantity(len(checked), 'skill')} valid")
    return 1 if broken else 0


def _catalog(skills: Skills, arguments: argparse.Namespace) -> int:
    catalog = skills.catalog(arguments.window)
    if arguments.json:
        terminal.print_json({**catalog._asdict(), "tokens": estimated_tokens(catalog.text)})
    elif catalog.text:
        terminal.say(catalog.text)
    else:
        no_room = f"not even one skill fits in {catalog.max_chars:,} characters"
        terminal.say(f"The catalog is empty: {skills.why_empty() or no_room}")
    return 0


_VERBS = {"list": _list, "search": _search, "read": _read, "validate": _validate, "catalog": _catalog}
