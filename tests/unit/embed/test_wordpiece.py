"""Are tokens those that the model was trained with? The ids are those of the tokenizer that it was published with."""

import pytest

from onhand.embed.wordpiece import WordPiece, packaged_vocabulary
from requirements import requirement

TOKENIZER = WordPiece(packaged_vocabulary())
CLS, SEP, UNK = 101, 102, 100

GOLDEN = [
    ("", []),
    ("How do I roll back a deployment?", [2129, 2079, 1045, 4897, 2067, 1037, 10813, 1029]),
    ("max_bytes=1024) -> str", [4098, 1035, 27507, 1027, 9402, 2549, 1007, 1011, 1028, 2358, 2099]),
    ("Crème brûlée, naïve café", [13675, 21382, 7987, 9307, 2063, 1010, 15743, 7668]),
    ("東京タワー in Tokyo", [1879, 1755, 1709, 30262, 30265, 1999, 5522]),
    ("ΟΔΟΣ Straße İstanbul", [1169, 29722, 29730, 29733, 2358, 27807, 9960]),
    ("don't — “quoted” $5.00", [2123, 1005, 1056, 1517, 1523, 9339, 1524, 1002, 1019, 1012, 4002]),
    ("unbelievably", [4895, 8671, 2666, 3567, 6321]),
    ("zero\u200bwidth tab\there\0nul \ufffd", [5717, 9148, 11927, 2232, 21628, 2182, 11231, 2140]),
    ("한국어", [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008]),
    ("हिन्दी", [1339, 29877, 29863, 29861, 29878]),
    ("👩‍👧 ok", [UNK, 7929]),
    ("a\u0301\u0323b", [11113]),
    ("ﬁne ½", [1984, 2638, 1092]),
    ("x" * 100, [22038, *[20348] * 49]),
    ("x" * 101, [UNK]),
]


@requirement("embed.in-process")
@pytest.mark.parametrize(("text", "ids"), GOLDEN)
def test_tokens_are_those_of_the_published_tokenizer(text: str, ids: list[int]) -> None:
    assert TOKENIZER.ids(text, 256) == [CLS, *ids, SEP]


def test_the_vocabulary_is_whole() -> None:
    vocabulary = packaged_vocabulary()
    assert len(vocabulary) == 30_522
    assert (vocabulary["[PAD]"], vocabulary["[UNK]"], vocabulary["[CLS]"], vocabulary["[SEP]"]) == (0, UNK, CLS, SEP)
    assert vocabulary["##～"] == 30_521


def test_the_first_tokens_count_and_the_end_is_always_marked() -> None:
    assert TOKENIZER.ids("one two three", 4) == [CLS, 2028, 2048, SEP]
    assert TOKENIZER.ids("unbelievably", 4) == [CLS, 4895, 8671, SEP]
    assert len(TOKENIZER.ids("word " * 1000, 256)) == 256


def test_a_text_cannot_speak_as_the_model() -> None:
    ids = TOKENIZER.ids("[SEP] [MASK] [CLS]", 256)
    assert ids.count(SEP) == ids.count(CLS) == 1
    assert 103 not in ids


def test_what_is_remembered_of_characters_is_bounded() -> None:
    tokenizer = WordPiece(packaged_vocabulary())
    for start in range(0x20, 0x20000, 0x8000):
        tokenizer.ids("".join(map(chr, range(start, start + 0x8000))).encode("utf-8", "ignore").decode(), 256)
    assert len(tokenizer._characters) <= 20_000
