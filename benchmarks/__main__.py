"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import (
    cache,
    coldstart,
    everything,
    keyword,
    lexical,
    quality,
    relations,
    sandbox_start,
    skills,
    tool_search,
    vectors,
)

MODULES = (
    *(coldstart, lexical, keyword, vectors, relations, cache, quality, tool_search, skills, everything),
    sandbox_start,
)

if __name__ == "__main__":
    for module in MODULES:
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
