"""Is text of every script findable, however it was typed?"""

import unicodedata

import pytest

from onhand.lexical.tokenizer import IdentifierTokenizer, fold
from requirements import requirement
from stores import lexical_index


def finds(query: str, text: str) -> bool:
    index = lexical_index()
    index.add("it", text)
    return bool(index.search(query))


FOUND = [
    ("zero-width characters part no word", "password", "pa\u200bss\u200cwo\u2060rd"),
    ("direction marks part no word", "password", "pass\u202eword\u200f"),
    ("tags part no word", "password", "pass\U000e0069word"),
    ("variation selectors part no word", "password", "pass\ufe01\U000e0105word"),
    ("zero-width characters in a query part no word", "pass\u200bword", "password"),
    ("a zero-width non-joiner parts a Persian word", "خواهم", "می\u200cخواهم"),
    ("accents", "cafe", "Café crème"),
    ("accents in the query", "naïve", "a naive idea"),
    ("decomposed accents", "résumé", "re\u0301sume\u0301"),
    ("ligature", "file", "ﬁle search"),
    ("full-width", "api", "ＡＰＩ key"),
    ("full-width digits", "2024", "２０２４"),
    ("superscript", "x2", "x²"),
    ("angstrom sign", "5 Å", "5 Å"),
    ("Turkish dotted capital", "istanbul", "İstanbul"),
    ("Turkish dotted capital in the query", "İSTANBUL", "Istanbul"),
    ("German sharp s", "STRASSE", "Straße"),
    ("German capital sharp s", "straße", "STRAẞE"),
    ("German umlaut", "Übergrößenträger", "ubergrossentrager"),
    ("Polish", "łódź", "Łódź"),
    ("Cyrillic", "привет", "ПРИВЕТ, мир"),
    ("Cyrillic yo", "елка", "ёлка"),
    ("Greek final sigma", "ΣΊΣΥΦΟΣ", "Σίσυφος"),
    ("Greek accents", "αθηνα", "Αθήνα"),
    ("Arabic vowel marks in the text", "محمد", "مُحَمَّد"),
    ("Arabic vowel marks in the query", "مُحَمَّد", "محمد"),
    ("Arabic hamza", "احمد", "أحمد"),
    ("Arabic tatweel", "محمد", "محـــمد"),
    ("Persian non-joiner", "کتاب", "کتاب\u200cها"),
    ("Hebrew points", "שלום", "שָׁלוֹם"),
    ("Hindi", "हिन्दी", "हिन्दी में पढ़ें"),
    ("Sinhala joiner", "ශ්රී", "ශ්\u200dරී ලංකා"),
    ("Korean", "검색", "파일검색도구"),
    ("Korean decomposed", "검색", unicodedata.normalize("NFD", "파일 검색")),
    ("Japanese", "検索", "全文検索エンジン"),
    ("half-width kana", "ファイル", "ﾌｧｲﾙ"),
    ("half-width voiced kana", "ガイド", "ｶﾞｲﾄﾞ"),
    ("Chinese", "搜索", "全文搜索引擎"),
    ("Chinese, one character", "搜", "全文搜索引擎"),
    ("compatibility ideograph", "\u8c48", "\uf900"),
    ("Thai", "ไฟล์", "การค้นหาไฟล์"),
    ("Khmer", "ឯកសារ", "ស្វែងរកឯកសារ"),
    ("Latin before kana", "api", "APIキーを作る"),
    ("kana after Latin", "キー", "APIキーを作る"),
    ("Latin and kana", "APIキー", "API キー"),
    ("soft hyphen", "document", "docu\u00adment"),
    ("word joiner", "wordpart", "word\u2060part"),
    ("byte order mark at the start", "title", "\ufefftitle"),
    ("byte order mark inside", "ab", "a\ufeffb"),
    ("variation selectors", "x", "x\U000e0165\U000e0176"),
    ("line separator", "b", "a\u2028b"),
    ("next line", "b", "a\u0085b"),
    ("NUL", "after", "before\0after"),
    ("lone surrogates", "x", "x\udfff \ud83d"),
    ("emoji", "🧪", "🧪🧪🧪"),
    ("emoji and a word", "🚀 deploy", "Deploy 🚀 now"),
    ("emoji without its skin tone", "👍", "👍🏽 ok"),
    ("emoji with a skin tone", "👍🏽", "👍 ok"),
    ("one of a joined family", "👧", "👩\u200d👩\u200d👧\u200d👦 family"),
    ("a word beside a joined family", "family", "👩\u200d👩\u200d👧\u200d👦 family"),
    ("emoji presentation", "❤", "❤\ufe0f"),
    ("keycap", "1", "1\ufe0f\u20e3 first"),
    ("flag", "🇩🇪", "in 🇩🇪 too"),
]  # fmt: skip

NOT_FOUND = [
    ("voiced kana are other letters", "か", "が"),
    ("voiced kana are other letters, decomposed", "か", "か\u3099"),
    ("half-width voiced kana are other letters", "ハ", "ﾊﾟ"),
    ("a Cyrillic look-alike is another letter", "paypal", "p\u0430ypal"),
    ("dotless i is another letter", "ısparta", "ISPARTA"),
    ("a stroke is no accent", "lodz", "Łódź"),
    ("digits of another script are other digits", "123", "١٢٣"),
    ("characters that are not neighbours are no pair", "全引", "全文搜索引擎"),
]


@requirement("lexical.scripts", "lexical.identifier-boundaries")
@pytest.mark.parametrize(("query", "text"), [case[1:] for case in FOUND], ids=[case[0] for case in FOUND])
def test_text_is_found_however_it_was_typed(query: str, text: str) -> None:
    assert finds(query, text)


@requirement("lexical.scripts")
@pytest.mark.parametrize(("query", "text"), [case[1:] for case in NOT_FOUND], ids=[case[0] for case in NOT_FOUND])
def test_other_letters_are_not_found(query: str, text: str) -> None:
    assert not finds(query, text)


@requirement("lexical.scripts")
def test_the_end_of_a_long_run_without_spaces_is_findable() -> None:
    assert finds("結末", "長い文章" * 500 + "結末")
    assert finds("จบแล้ว", "ข้อความยาว" * 500 + "จบแล้ว")


@requirement("lexical.scripts")
def test_a_phrase_comes_before_its_characters_apart() -> None:
    index = lexical_index()
    index.add("apart", "索引を検討する")
    index.add("together", "全文検索を使う")
    assert index.search("検索")[0].id == "together"


def test_without_bigrams_a_run_is_one_term() -> None:
    assert list(IdentifierTokenizer(bigrams=False).terms("日本語 ツール")) == ["日本語", "ツール"]


def test_folding_keeps_what_is_not_an_accent() -> None:
    assert fold("ﬁlé Ça") == "file Ca"
    assert fold("가각 がぱ") == "가각 がぱ"
