"""Have the forms of one English word the same stem?"""

from itertools import combinations

import pytest

from onhand.lexical.tokenizer import stem
from requirements import requirement

ONE_WORD = """
add adds added adding
agree agrees agreed agreeing
alias aliases aliased aliasing
access accesses accessed accessing
api apis
box boxes
build builds building buildings
bus buses
cache caches cached caching
call calls called calling
class classes
close closes closed closing
copy copies copied copying
create creates created creating
database databases
debug debugs debugged debugging
dependency dependencies
deploy deploys deployed deploying
embed embeds embedded embedding embeddings
exceed exceeds exceeded exceeding
fetch fetches fetched fetching
file files filed filing
fix fixes fixed fixing
free frees freed
guarantee guarantees guaranteed
index indexes indexed indexing
install installs installed installing
issue issues issued issuing
key keys keyed keying
log logs logged logging
match matches matched matching
meet meets meeting meetings
merge merges merged merging
name names named naming
need needs needed needing
parse parses parsed parsing
pass passes passed passing
ping pings pinged pinging
plan plans planned planning
policy policies
process processes processed processing
push pushes pushed pushing
query queries queried querying
queue queues queued queueing
release releases released releasing
retry retries retried retrying
run runs running
schema schemas
search searches searched searching
see sees seeing
set sets setting settings
size sizes sized sizing
speed speeds speeding
status statuses
stop stops stopped stopping
string strings
study studies studied studying
test tests tested testing
try tries tried trying
type types typed typing
user users
write writes writing
""".strip().splitlines()


DERIVED = """
authentic authenticate authentication authenticator
configure configuration configurable configurations
connect connection connector connections
deploy deployment deployments
index indexer indexing
inform information informal
nation national nationality
observe observation observations
separate separation separately
""".strip().splitlines()


@requirement("lexical.stems-stand-beside")
@pytest.mark.parametrize("words", DERIVED)
def test_words_that_are_made_of_one_another_share_one_stem(words: str) -> None:
    stems = {stem(word) for word in words.split()}
    assert len(stems) == 1, f"{words}: {stems}"


@pytest.mark.parametrize(
    "words", ["number numb", "server serve", "author auth", "motion motor", "paper pap", "local loc"]
)
def test_a_short_word_keeps_an_ending_that_may_be_its_own(words: str) -> None:
    longer, shorter = words.split()
    assert stem(longer) != stem(shorter)


@requirement("lexical.stems-stand-beside")
@pytest.mark.parametrize("forms", ONE_WORD)
def test_the_forms_of_a_word_share_one_stem(forms: str) -> None:
    stems = {stem(form) for form in forms.split()}
    assert len(stems) == 1, f"{forms}: {stems}"


def test_different_words_keep_different_stems() -> None:
    stems = {forms.split()[0]: stem(forms.split()[0]) for forms in ONE_WORD}
    same = [(a, b) for a, b in combinations(stems, 2) if stems[a] == stems[b]]
    assert same == []


@pytest.mark.parametrize("word", ["", "a", "is", "use", "bring", "string", "class", "analysis", "this", "axis", "fall",
                                  "sha256s", "naïves", "файлы", "日本語s", "a-bs", "\0\0\0s",
                                  "\ud800\ud800\ud800s"])  # fmt: skip
def test_short_odd_and_plain_words_stay_as_they_are(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    "word", ["ssss", "ings", "eeee", "iesies", "sses", "yyyy", "eded", "ingsing", "x" * 10_000 + "s", "ational" * 2000]
)
def test_a_stem_is_never_empty_nor_longer_than_its_word(word: str) -> None:
    assert 0 < len(stem(word)) <= len(word)


@pytest.mark.parametrize("forms", ONE_WORD)
def test_stemming_a_stem_keeps_the_forms_of_a_word_together(forms: str) -> None:
    assert len({stem(stem(form)) for form in forms.split()}) == 1
