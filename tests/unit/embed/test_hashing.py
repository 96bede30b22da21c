"""Are hashed vectors good enough to test with?"""

import subprocess
import sys
from pathlib import Path

from onhand.embed.hashing import HashingEmbedder
from onhand.embed.similar import cosine

SOURCE = Path(__file__).parents[3] / "src"


def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    query, same, other = HashingEmbedder().embed(["rolling back a service", "Roll back the service!", "apple cake"])
    assert cosine(query, same) > cosine(query, other) + 0.2


def test_vectors_are_the_same_in_every_process_and_need_the_standard_library_alone() -> None:
    code = (
        "import sys; from onhand.embed.hashing import HashingEmbedder\n"
        "vector = HashingEmbedder(8).embed(['some words'])[0]\n"
        "print('numpy' in sys.modules, *vector)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": "7"},
        capture_output=True,
        check=True,
    )
    imported, *numbers = told.stdout.decode().split()
    assert imported == "False"
    assert [float(number) for number in numbers] == list(HashingEmbedder(8).embed(["some words"])[0])


def test_the_dimension_is_part_of_the_name() -> None:
    assert HashingEmbedder(8).name != HashingEmbedder(16).name
