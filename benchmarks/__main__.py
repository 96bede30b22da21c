"""`make bench`: everything that is measured, one table after the other."""

from importlib import import_module

NAMES = (
    *("coldstart", "lexical", "keyword", "vectors", "relations", "cache", "quality", "tool_search", "skills"),
    *("everything", "loop", "sandbox_start", "mcp_start", "gateway", "grpc_load", "find"),
)

if __name__ == "__main__":
    for name in NAMES:
        module = import_module(f"benchmarks.{name}")
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
