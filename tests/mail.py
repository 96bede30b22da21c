"""A small corpus of mail, and an embedder that knows a few words, for the tests of documents."""

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from onhand.document import Document

SARAH, BOB = "Sarah Chen <sarah@tidewheel.example>", "bob@tidewheel.example"
FORECAST = Document(
    "mail-forecast",
    "Q3 revenue model - draft for review",
    "Hi all,\n\nattached are the quarterly projections: pipeline, assumptions, churn.\n"
    "Please comment by Friday.\n\nSarah\n",
    SARAH,
    ("email", "finance"),
    "inbox",
    datetime(2026, 6, 28, 9, 30, tzinfo=UTC),
    {"to": "team@tidewheel.example"},
)
_SUBJECTS = ["Dock sensors in the rain", "Lunch on Thursday", "Bike repair backlog", "On-call rota", "Office plants"]


def mails() -> list[Document]:
    """23 mails by Sarah, one of them about the forecast, 7 by Bob, and a note of nobody's without a time."""
    by_sarah = [_mail(number, SARAH) for number in range(22)]
    by_bob = [_mail(number, BOB) for number in range(22, 29)]
    note = Document("note-refunds", "Refunds", "How we give money back: by card, in three days.", tags=("policy",))
    return [*by_sarah, FORECAST, *by_bob, note]


def _mail(number: int, author: str) -> Document:
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    text = f"Hello,\n\n{subject.lower()}, part {number}. See ticket DOCK-{1000 + number}.\n\nBest\n"
    created = datetime(2026, 1, 5, 8, tzinfo=UTC) + timedelta(days=number)
    return Document(f"mail-{number:03d}", subject, text, author, ("email",), "inbox", created)


class Concepts:
    """An Embedder of a few concepts: texts that name the same ones are near, in whatever words."""

    name = "concepts"
    dimension = 8
    prompt_format = "plain"
    min_score: float | None = 0.5

    _CONCEPTS = (
        {"forecast", "projections", "projection", "outlook"},
        {"q3", "quarter", "quarterly"},
        {"revenue", "sales"},
        {"refund", "refunds", "money", "back"},
        {"bike", "repair", "sensors", "dock"},
        {"lunch", "office", "plants"},
        {"on", "call", "rota"},
    )

    def embed(self, texts: Sequence[str], kind: str = "document") -> "list[array[float]]":
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> "array[float]":
        words = set("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())
        numbers = [float(len(words & concept)) for concept in self._CONCEPTS] + [0.1]
        length = sum(number * number for number in numbers) ** 0.5
        return array("f", (number / length for number in numbers))
