"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import (
    cache,
    coldstart,
    everything,
    keyword,
    lexical,
    mcp_start,
    quality,
    relations,
    skills,
    tool_search,
    vectors,
)

if __name__ == "__main__":
    measured = (
        coldstart,
        mcp_start,
        lexical,
        keyword,
        vectors,
        relations,
        cache,
        quality,
        tool_search,
        skills,
        everything,
    )
    for module in measured:
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
