"""What is the smallest model that calls a tool? A llama that knows for each token the one that follows it.

Its layer adds nothing, so what comes next depends on the last token alone: every embedding points in a direction of its
own, and the output layer turns a token's direction into that of its successor. What it says is therefore certain, while
llama.cpp loads and runs it as any other model.
"""

from collections.abc import Mapping
from pathlib import Path

WIDTH, CONTEXT = 512, 4096
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # types of tokens
CONTROLS = [
    *("<start_of_turn>", "<end_of_turn>", "<escape>"),
    *(f"<{end}_function_{what}>" for what in ("declaration", "call", "response") for end in ("start", "end")),
]


def write(path: Path, follows: Mapping[str, str]) -> Path:
    """A file with such a model. A token is a control token, one character of a byte, or any text that is named here."""
    import gguf
    import numpy as np

    base = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    texts = sorted({*follows, *follows.values()} - {*CONTROLS, "\n"})
    tokens = [*base, *CONTROLS, *texts]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[USER_DEFINED] * (len(CONTROLS) + len(texts))]
    place = {token: number for number, token in enumerate(tokens)} | {"\n": base.index("<0x0A>")}

    directions = np.zeros((len(tokens), WIDTH), np.float32)
    directions[np.arange(len(tokens)), np.arange(len(tokens))] = 1
    output = np.zeros((len(tokens), WIDTH), np.float32)
    output[place["<end_of_turn>"]] = 0.01  # after whatever nobody thought of
    for token, successor in follows.items():
        output[place[successor], place[token]] = 1

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(32)
    writer.add_block_count(1)
    writer.add_head_count(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(place["<end_of_turn>"])
    writer.add_add_space_prefix(False)
    writer.add_tensor("token_embd.weight", directions)
    writer.add_tensor("output.weight", output)
    for name in ("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"):
        writer.add_tensor(name, np.ones(WIDTH, np.float32))
    for name, shape in {
        **{f"attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
        "ffn_gate": (32, WIDTH),
        "ffn_up": (32, WIDTH),
        "ffn_down": (WIDTH, 32),
    }.items():
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
