"""`make bench`: what is measured beside peers, one table after the other; with `--long`, all that is measured.

Long are the runs that look for a rare failure (a lost write, an escape, a dead server) and the choice of constants on
sets that are held out. The tests run most of them for a moment; each says by `--help` how long it may be.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

TABLES = (
    *(
        "coldstart",
        "lexical",
        "keyword",
        "import_speed",
        "vectors",
        "embed_speed",
        "relations",
        "cache",
        "quality",
        "tool_search",
    ),
    *("skills", "everything", "loop", "sandbox_start", "mcp_start", "mcp_tokens", "http_latency", "gateway"),
    *("grpc_load", "find"),
)
LONG = (
    *("kills", "plan_kills", "flips", "writers", "races", "dead_upstreams", "http_attacks", "soak"),
    "tool_held_out",
)

BY_ITSELF = ("compare",)  # takes the commit to compare with, and runs others of these


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="run also what takes many minutes each")
    names = (*TABLES, *LONG) if parser.parse_args(argv).long else TABLES
    failed = [name for name in names if not run_benchmark(name)]
    if names == TABLES:
        print(f"\nnot run, as each takes many minutes (--long): {', '.join(LONG)}")
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return bool(failed)


def run_benchmark(name: str) -> bool:
    """Run one, and say whether it went well."""
    module = import_module(f"benchmarks.{name}")
    print(f"\n# {(module.__doc__ or '').splitlines()[0]}", flush=True)
    try:
        return not module.main([])
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code)
        return not end.code


if __name__ == "__main__":
    sys.exit(main())
