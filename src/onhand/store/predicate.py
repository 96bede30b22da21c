"""Does a filter let a document through? The meaning of a Filter, in one place; a store may work it out faster."""

from onhand.document import Document, Filter, author_keys, wanted_authors


def passes(document: Document, filter: Filter) -> bool:
    """Whether a document is by one of the authors, has all of the tags, lies in one of the scopes and in the time."""
    created = document.created_time
    return (
        (not filter.author or not wanted_authors(filter).isdisjoint(author_keys(document.author)))
        and set(filter.tags).issubset(document.tags)
        and (not filter.scope or document.scope in filter.scope)
        and (filter.created_after is None or (created is not None and created >= filter.created_after))
        and (filter.created_before is None or (created is not None and created < filter.created_before))
    )
