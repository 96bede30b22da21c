"""The models that can be chosen by name, where each comes from and how its texts are prefixed.

Revisions, sizes and checksums of files on the hub are those that several public projects have pinned independently
(docs/adr/0010-embedders.md); a file that differs is not used.
"""

from typing import Literal, NamedTuple

from onhand.embed.embedder import BGE_ENGLISH, E5, EMBEDDING_GEMMA, PLAIN, Prompts
from onhand.embed.hub import HubFile


class KnownModel(NamedTuple):
    """A model, the file that has its weights, and how a vector comes out of it."""

    name: str
    runtime: Literal["package", "onnx", "gguf"]
    file: HubFile | None  # None: its weights are installed as a package
    prompts: Prompts
    dimension: int
    pooling: Literal["mean", "cls"]  # a GGUF file says so itself
    max_tokens: int
    languages: str


MODELS = {
    model.name: model
    for model in (
        KnownModel("minilm", "package", None, PLAIN, 384, "mean", 256, "English"),
        KnownModel(
            "bge-small",
            "onnx",
            HubFile(
                "BAAI/bge-small-en-v1.5",
                "onnx/model.onnx",
                "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
                "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
                133_093_490,
                chosen_by="bge-small",
            ),
            BGE_ENGLISH,
            384,
            "cls",
            512,
            "English",
        ),
        KnownModel(
            "embeddinggemma",
            "gguf",
            HubFile(
                "ggml-org/embeddinggemma-300M-GGUF",
                "embeddinggemma-300M-Q8_0.gguf",
                "main",
                "b5ce9d77a3fc4b3b39ccb5643c36777911cc4eb46a66962eadfa3f5f60490d63",
                333_590_944,
            ),
            EMBEDDING_GEMMA,
            256,  # of 768: it is trained so that the first numbers carry the most meaning
            "mean",
            2048,
            "100 languages",
        ),
        KnownModel(
            "multilingual-e5-small",
            "gguf",
            HubFile(
                "TwinSunsLLC/multilingual-e5-small-gguf",
                "multilingual-e5-small-q8_0.gguf",
                "b6cac9615d4ecce28d7f22539b7322d695fc2886",
                "e011debc1208e31bf7b6aebee2d9fc8bd2ca11694a77ed66ac9d0c9d0a877c93",
                132_439_008,
            ),
            E5,
            384,
            "mean",
            512,
            "100 languages",
        ),
    )
}


def model_of_file(address: str) -> KnownModel | None:
    """Return the model whose file has this address on the hub, OWNER/REPOSITORY/FILE, if it is one of them."""
    return next((model for model in MODELS.values() if model.file and model.file.address == address), None)
