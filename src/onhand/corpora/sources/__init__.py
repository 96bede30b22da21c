"""Which documents are in these files? One file here for each form; `read_sources` reads them all."""

from onhand.corpora.sources.read import FORMS, Sources, read_sources
from onhand.corpora.sources.source import Problem

__all__ = ["FORMS", "Problem", "Sources", "read_sources"]
