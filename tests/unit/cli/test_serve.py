"""Does `onhand serve` open the gRPC door, alone and beside whatever else the process serves?"""

import asyncio
import os
from pathlib import Path

import pytest

from mail import mails
from onhand import config, open_index
from onhand.cli.main import main
from onhand.cli.serve import Door, open_grpc_door
from onhand.grpc import AsyncClient
from onhand.project import Project, load_config
from requirements import requirement


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONHAND_DOCUMENTS_EMBEDDER", "none")
    with open_index(tmp_path / ".onhand" / "documents.db", embedder=None) as index:
        index.put(mails())
    return tmp_path


def test_a_directory_without_documents_says_how_to_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--grpc", ":0"]) == 1
    assert "import some with `onhand docs import" in capsys.readouterr().err


@requirement("grpc.serve-command")
def test_it_runs_in_a_loop_that_serves_something_else_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def both() -> tuple[bytes, str]:
        other = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with other, open_grpc_door(Project(load_config()), "127.0.0.1:0", Door()):
            reader, writer = await asyncio.open_connection(*other.sockets[0].getsockname())
            writer.write(b"hello\n")
            address = capsys.readouterr().err.split("serving gRPC on ")[1].split()[0]
            async with AsyncClient(address) as client:
                found, said = await asyncio.gather(client.keyword("projections"), reader.readline())
            writer.close()
            return said, found.hits[0].document_id

    assert asyncio.run(both()) == (b"hello\n", "mail-forecast")


@requirement("grpc.security")
@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_key_that_a_project_links_to_from_outside_is_not_read(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "id.pem"
    secret.write_text("not yours", encoding="utf-8")
    (project / "key.pem").symlink_to(secret)
    (project / "onhand.toml").write_text('[grpc]\ntls_key = "key.pem"\n', encoding="utf-8")
    asked = config.load(str(project))
    assert asked.grpc.tls_key == ""
    assert any("grpc.tls_key" in warning for warning in asked.warnings)


def test_an_option_that_names_nothing_may_be_written_down(project: Path) -> None:
    (project / "onhand.toml").write_text('[grpc]\ntls_cert = ""\nmetrics = ""\n', encoding="utf-8")
    assert config.load(str(project)).grpc.tls_cert == ""
