"""Is a JSON file read object by object, whatever its size?"""

import json

import pytest

from requirements import requirement

from .conftest import Files


@requirement("documents.import")
@pytest.mark.parametrize("separator", [",", " ,\n\t"])
def test_an_array_is_read_object_by_object(files: Files, separator: str) -> None:
    objects = [{"id": number, "text": f"text {number} " + "é" * 1000} for number in range(1000)]
    content = "\ufeff [" + separator.join(json.dumps(one, ensure_ascii=False) for one in objects) + "]\n"
    read = files.of("a.json", content)
    assert [document.id for document in read.documents] == [str(number) for number in range(1000)]
    assert {document.text[-1000:] for document in read.documents} == {"é" * 1000}
    assert read.problems == []


@pytest.mark.parametrize("content", ['{"text": "a"}', '{"text": "a"}\n{"text": "b"}', '[{"text": "a"}, {"text": "b"}]'])
def test_one_object_or_several_in_a_row_are_read_like_an_array(files: Files, content: str) -> None:
    read = files.of("a.json", content)
    assert "".join(document.text for document in read.documents) == "ab"[: content.count("text")]
    assert read.problems == []


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        ('[{"text": "a"}, {oops}, {"text": "b"}]', "record 2", "not JSON"),
        ('[{"text": "a"} {"text": "b"}]', "record 1", "no comma"),
        ('[{"text": "a"}, 7]', "record 2", "a JSON number"),
        ('[{"text": "a"}', "record 1", "no comma or ]"),
        ('[{"text": "a"},', "", "incomplete"),
        ('[{"text": "a"}] x', "", "something after the last record"),
        ('{"text": "a"} ]', "", "something after the last record"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_what_was_before_it_is_kept(
    files: Files, content: str, where: str, reason: str
) -> None:
    read = files.of("a.json", content)
    assert [document.text for document in read.documents] == ["a"]
    assert [told[0] for told in read.reasons] == [where]
    assert reason in read.reasons[0][1]


def test_a_record_that_is_too_long_is_passed_over(files: Files) -> None:
    content = json.dumps([{"text": "x" * 2000}, {"text": "after"}])
    read = files.of("a.json", content, max_record_bytes=1000)
    assert [document.text for document in read.documents] == ["after"]
    assert read.reasons == [("record 1", "longer than 1,000 bytes: left out; split it")]


def test_a_record_that_does_not_fit_into_memory_ends_the_file(files: Files) -> None:
    read = files.of("a.json", json.dumps([{"text": "x" * 600_000}, {"text": "after"}]), max_record_bytes=1000)
    assert read.documents == []
    assert "or longer than 1,000 bytes" in read.reasons[0][1]


@pytest.mark.parametrize("content", ["[" * 500_000, '[{"a":' * 100_000, '["' + "\\" * 500_000])
def test_a_hostile_file_is_one_problem(files: Files, content: str) -> None:
    read = files.of("a.json", content)
    assert read.documents == []
    assert len(read.problems) == 1


def test_wide_characters_and_broken_ones_are_reported(files: Files) -> None:
    assert "save it as UTF-8" in files.of("a.json", '[{"text": "a"}]'.encode("utf-16-le")).reasons[0][1]
    read = files.of("b.json", b'[{"text": "caf\xe9"}]')
    assert read.only.text == "caf\ufffd"
    assert "not UTF-8" in read.reasons[0][1]
