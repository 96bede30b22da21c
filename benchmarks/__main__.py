"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import cache, coldstart, everything, keyword, lexical, quality, relations, skills, vectors

if __name__ == "__main__":
    for module in (coldstart, lexical, keyword, vectors, relations, cache, quality, skills, everything):
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
