"""Count tokens exactly with a vocabulary on this machine, instead of estimating them.

pip install onhand tokenizers
python examples/peers/exact_tokens.py
"""

import tempfile
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from onhand.tools.catalog import Catalog
from onhand.tools.catalog_files import read_catalog
from onhand.tools.loading import open_token_counter
from onhand.tools.session import forecast

SAMPLE = Path(__file__).parents[1] / "sample-tools" / "tools.json"


def main() -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    vocabulary = Tokenizer(models.BPE())
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocabulary.train_from_iterator([text], trainers.BpeTrainer(vocab_size=2_000, initial_alphabet=alphabet))
    with tempfile.TemporaryDirectory() as directory:
        file = str(Path(directory) / "tokenizer.json")
        vocabulary.save(file)
        counter = open_token_counter(f"tokenizers:{file}")
    assert counter.tokens("create an issue") == len(vocabulary.encode("create an issue").ids)
    catalog = Catalog()
    catalog.add(read_catalog(SAMPLE).tools)
    exact, estimated = forecast(catalog, tokenizer=counter), forecast(catalog)
    print(f"exact: {exact.eager_tokens:,} eager, {exact.lazy_tokens:,} lazy ({exact.error})")
    print(f"estimated: {estimated.eager_tokens:,} eager, {estimated.lazy_tokens:,} lazy")
    assert exact.saved_share > 0.89
    print("ok: tokenizers")


if __name__ == "__main__":
    main()
