"""What did a person say in an editor? The blocks of a prompt as one text for the model."""

from collections.abc import Sequence

from acp import schema
from acp.exceptions import RequestError

from onhand.corpora.blocks import block
from onhand.text import whole

Block = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def text_of(prompt: Sequence[Block]) -> str:
    """The prompt as a text. Files that came with it are in blocks that nothing in them can close."""
    said = "\n\n".join(text for one in prompt if (text := _text(one)).strip())
    if not said:
        raise RequestError.invalid_params({"details": "the prompt is empty: send some text"})
    return whole(said)


def _text(one: Block) -> str:
    match one:
        case schema.TextContentBlock():
            return one.text
        case schema.ResourceContentBlock():
            about = {"uri": one.uri, "name": one.name, "description": one.description}
            return block("resource_link", {name: value for name, value in about.items() if value}, "")
        case schema.EmbeddedResourceContentBlock():
            return _embedded(one.resource)
    kind = "images" if isinstance(one, schema.ImageContentBlock) else "audio"
    raise RequestError.invalid_params({"details": f"{kind} cannot be read here, as promptCapabilities says: send text"})


def _embedded(resource: schema.TextResourceContents | schema.BlobResourceContents) -> str:
    about = {"uri": resource.uri}
    if isinstance(resource, schema.TextResourceContents):
        return block("resource", about, resource.text)
    return block("resource", about, f"(binary content of about {len(resource.blob) * 3 // 4:,} bytes, not shown)")
