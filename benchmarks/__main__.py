"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import coldstart, keyword, lexical, quality, skills, vectors

if __name__ == "__main__":
    for module in (coldstart, lexical, keyword, vectors, quality, skills):
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
