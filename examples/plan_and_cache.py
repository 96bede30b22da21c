"""Keep a plan that outlives a conversation, and reuse answers to questions that were asked before.

python examples/plan_and_cache.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from onhand import Computed, Context, Plan, Registry, Scope, open_cache
from onhand.text import digest

PROJECT = Path(__file__).parent / "sample-project"


def share_a_plan(path: Path) -> None:
    """Two agents on one file: what one begins, the other leaves alone."""
    first, second = (Registry(Plan(path).tools()) for _ in range(2))
    steps = [
        {"id": "rule", "description": "Write the tariff rule"},
        {"id": "diff", "description": "Re-price a month of rides", "parents": ["rule"]},
        {"id": "note", "description": "Write the riders' note"},
    ]
    for agent, name, arguments in (
        (first, "plan_add", {"nodes": steps}),
        (first, "plan_update", {"id": "rule", "status": "in_progress"}),
        (second, "plan_update", {"id": "rule", "status": "in_progress"}),
        (second, "plan_update", {"id": "note", "status": "in_progress"}),
        (first, "plan_update", {"id": "rule", "status": "done"}),
    ):
        result = agent.call(name, arguments)
        print(f"{'ok' if result.ok else 'refused'}: {result.text}")
    print(f"after a restart:\n{Registry(Plan(path).tools()).call('plan_show').text}")


def ask_twice(path: Path) -> None:
    """Answers are kept with what they were drawn from, for one model and one prompt; here words are compared."""
    context = Context(PROJECT)
    scope = Scope(model="some-model", system=context.prompt())

    def version_of(page: str) -> str:
        return digest((PROJECT / page).read_bytes())

    with open_cache(path, version_of=version_of) as cache:
        for query in (
            "Where may riders pause a ride?",
            "Where may a rider pause a ride?",
            "Where may riders not pause a ride?",
        ):

            def compute(query: str = query) -> Computed:
                """What would be a call of a model."""
                best = context.search(query).hits[0]
                return Computed(best.section.text, documents=[best.path])

            answer = cache.get_or_compute(query, compute, scope)
            print(f"{'cached' if answer.cached else 'computed'}: {query} ({answer.lookup.reason})")

    with open_cache(path, version_of=version_of) as cache:  # another day, another process
        print(f"kept: {cache.lookup('Where may riders pause a ride?', scope).reason}")
        print(f"for another model: {cache.lookup('Where may riders pause a ride?', Scope(model='other')).reason}")


with TemporaryDirectory() as directory:
    share_a_plan(Path(directory) / "plan.journal")
    print()
    ask_twice(Path(directory) / "answers.json")
