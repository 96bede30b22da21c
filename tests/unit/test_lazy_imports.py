"""Which modules import others of ours inside functions, and why? Everywhere else, imports stand at the top."""

import ast
from collections.abc import Iterator
from pathlib import Path

from requirements import requirement

SOURCE = Path(__file__).parents[2] / "src"

COMMAND = "a command pays only for what it runs"
PART = "a project pays only for the parts that are used"
COLD = "on the way to `onhand --help` or `onhand context search`, which must not pay for it"
BACKEND = "only the backend that is chosen is loaded"
FORMAT = "a parser is loaded only for files of its format"
EXTRA = "what it imports needs an optional extra"

LAZY = {
    "onhand.cli.*": COMMAND,
    "onhand.project": PART,
    "onhand.doors": EXTRA,
    "onhand.embed.choose": EXTRA,
    "onhand.grpc": EXTRA,
    "onhand.lexical.index": EXTRA,
    "onhand.store.sqlite": EXTRA,
    "onhand.actions.workspace": EXTRA,
    "onhand.sandbox.bubblewrap": BACKEND,
    "onhand.sandbox.landlock": BACKEND,
    "onhand.sandbox.sandbox": BACKEND,
    "onhand.tools.catalog": BACKEND,
    "onhand.corpora.sources.fields": FORMAT,
    "onhand.corpora.sources.mail": FORMAT,
    "onhand.corpora.sources.page": FORMAT,
    "onhand.config": COLD,
    "onhand.config.files": COLD,
    "onhand.corpora.blocks": COLD,
    "onhand.closed_paths": COLD,
    "onhand.corpora.context": COLD,
    "onhand.corpora.documents": COLD,
    "onhand.corpora.federated": COLD,
    "onhand.markdown.frontmatter": COLD,
    "onhand.markdown.page": COLD,
    "onhand.search.index": COLD,
    "onhand.search.result": COLD,
    "onhand.search.validation": COLD,
    "onhand.store.memory": COLD,
    "onhand.store.store": COLD,
    "onhand.corpora.notes": COLD,
    "onhand.corpora.skills": COLD,
    "onhand.trust": COLD,
}


def lazy_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of ours that functions import."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("onhand")):
                    yield node.module or "."
                elif isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names if alias.name.startswith("onhand"))


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((SOURCE / "onhand").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text(encoding="utf-8"))


@requirement("project.cold-path-is-light")
def test_only_the_listed_modules_import_ours_inside_functions() -> None:
    lazy = {name for name, tree in modules() if any(lazy_imports(tree))}
    listed = {name for name in lazy if name in LAZY or name.rpartition(".")[0] + ".*" in LAZY}
    assert sorted(lazy - listed) == [], "import at the top, or add the module to LAZY with its reason"


def eager_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules of ours that are imported whenever the module is, and the names that may be modules."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onhand"):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.If | ast.Try) and not _is_type_checking(node):
            waiting += node.body


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@requirement("project.cold-path-is-light")
def test_no_function_imports_a_module_of_ours_that_is_loaded_already() -> None:
    trees = dict(modules())
    eager = {name: set(eager_imports(tree)) & trees.keys() for name, tree in trees.items()}
    packages = {name: {name[:place] for place, char in enumerate(name) if char == "."} for name in trees}
    useless = []
    for name, tree in trees.items():
        loaded, waiting = set[str](), [name]
        while waiting:
            module = waiting.pop()
            if module not in loaded:
                loaded.add(module)
                waiting += eager[module] | packages[module]
        useless += [f"{name} imports {one}" for one in lazy_imports(tree) if one in loaded - packages[name]]
    assert useless == [], "import these at the top: they cost nothing there"
