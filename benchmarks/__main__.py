"""`make bench`: everything that is measured, one table after the other."""

from benchmarks import coldstart, lexical, quality, vectors

if __name__ == "__main__":
    for module in (coldstart, lexical, vectors, quality):
        print(f"\n# {(module.__doc__ or '').splitlines()[0]}")
        module.main([])
