"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import (
    cache,
    coldstart,
    everything,
    keyword,
    lexical,
    loop,
    quality,
    relations,
    skills,
    tool_search,
    vectors,
)

if __name__ == "__main__":
    for module in (
        coldstart,
        lexical,
        keyword,
        vectors,
        relations,
        cache,
        quality,
        tool_search,
        skills,
        everything,
        loop,
    ):
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
