"""What is the smallest model that llama.cpp loads? A BERT of two layers with weights by chance, written anew."""

from pathlib import Path
from string import ascii_lowercase, digits

WIDTH, LAYERS, HEADS, CONTEXT = 64, 2, 4, 128
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*ascii_lowercase, *digits, *".,:|"]
VOCABULARY = [*SPECIAL, *(f"▁{letter}" for letter in LETTERS), *LETTERS]
NORMAL, CONTROL = 1, 3  # types of tokens


def write(path: Path, pooling: int = 1) -> Path:
    """A file with such a model; `pooling` 1 is the mean of the tokens, 0 is none."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH * 2)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType(pooling))
    writer.add_tokenizer_model("bert")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([CONTROL] * len(SPECIAL) + [NORMAL] * (len(VOCABULARY) - len(SPECIAL)))
    writer.add_token_type_count(2)
    for place, add in enumerate((writer.add_pad_token_id, writer.add_unk_token_id, writer.add_bos_token_id)):
        add(place)
    writer.add_sep_token_id(3)
    writer.add_eos_token_id(3)
    writer.add_mask_token_id(4)
    _add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensors(writer: "gguf.GGUFWriter") -> None:  # type: ignore[name-defined]  # noqa: F821
    import numpy as np

    chance = np.random.default_rng(7)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(name, (chance.standard_normal(shape) * 0.1).astype(np.float32))

    def layer(name: str, out: int, into: int) -> None:
        weights(f"{name}.weight", out, into)
        weights(f"{name}.bias", out)

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(WIDTH, np.float32))

    weights("token_embd.weight", len(VOCABULARY), WIDTH)
    weights("position_embd.weight", CONTEXT, WIDTH)
    weights("token_types.weight", 2, WIDTH)
    norm("token_embd_norm")
    for block in range(LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            layer(f"blk.{block}.{part}", WIDTH, WIDTH)
        norm(f"blk.{block}.attn_output_norm")
        layer(f"blk.{block}.ffn_up", WIDTH * 2, WIDTH)
        layer(f"blk.{block}.ffn_down", WIDTH, WIDTH * 2)
        norm(f"blk.{block}.layer_output_norm")
