"""The gateway of a running portal, used by programs made for HDFS: HdfsCLI, fsspec, smart_open, curl, wget and Hadoop's
own client. Where the files are is behind the gateway: with a real HDFS there, one program does all it can, a large file
passes and an upload breaks off."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import requests
import smart_open
from hdfs import HdfsError, InsecureClient, TokenClient

from tests.acceptance.portal import Portal, portal_of_files
from tests.bed.hdfs_bed import HdfsBed, client3_missing, fs3
from tests.helpers import LIMIT, need, until

by_folder = pytest.mark.parametrize("portal", ["folder"], indirect=True)


@pytest.fixture(scope="module", params=["folder", pytest.param("hdfs", marks=pytest.mark.hdfs)])
def portal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal without an engine; its store is a folder, then a real HDFS."""
    if request.param == "folder":
        yield request.getfixturevalue("files_portal")
        return
    bed: HdfsBed = request.getfixturevalue("hdfs")
    settings = {"LONGSHORE_STORE_URL": bed.store_url, "LONGSHORE_STORE_USER": bed.user}
    with portal_of_files(tmp_path_factory.mktemp("portal"), **settings) as one:
        yield one


@pytest.fixture
def token(portal: Portal) -> str:
    headers = {"Authorization": portal.http.headers["Authorization"]}
    answer = requests.get(f"{portal.url}/webhdfs/v1/?op=GETDELEGATIONTOKEN", headers=headers, timeout=LIMIT)
    return str(answer.json()["Token"]["urlString"])


@pytest.fixture
def client(portal: Portal, token: str) -> TokenClient:
    client = TokenClient(portal.url, token, timeout=LIMIT)
    client.delete("/shared/t", recursive=True)
    return client


def test_hdfscli_does_all_it_can(portal: Portal, client: TokenClient, tmp_path: Path) -> None:
    client.makedirs("/shared/t/a")
    client.write("/shared/t/a/one", data=(b"x" * 100_000 for _ in range(30)))  # chunked, without a length
    client.write("/shared/t/a/two", data="first\n", encoding="utf-8")
    client.write("/shared/t/a/two", data="second\n", encoding="utf-8", append=True)
    with client.read("/shared/t/a/two", encoding="utf-8") as reader:
        assert reader.read() == "first\nsecond\n"
    assert client.checksum("/shared/t/a/one")["algorithm"] == "MD5-of-0MD5-of-512CRC32"
    with InsecureClient(portal.url, user="mira").read("/shared/t/a/two") as reader:
        assert reader.read() == b"first\nsecond\n"
    with client.read("/shared/t/a/one", offset=2_999_990, length=5) as reader:
        assert reader.read() == b"xxxxx"
    assert client.list("/shared/t/a") == ["one", "two"]
    assert client.status("/shared/t/a/one")["length"] == 3_000_000
    assert client.content("/shared/t")["fileCount"] == 2
    assert [(path, files) for path, _, files in client.walk("/shared/t")][1] == ("/shared/t/a", ["one", "two"])
    client.rename("/shared/t/a/two", "/shared/t/b")
    client.set_permission("/shared/t/b", "755")
    assert client.status("/shared/t/b")["permission"] == "777"
    with pytest.raises(HdfsError, match="everyone reads"):
        client.set_permission("/shared/t/b", "640")
    with pytest.raises(HdfsError, match="already exists"):
        client.write("/shared/t/b", data=b"x")
    with pytest.raises(HdfsError, match="does not exist"):
        client.status("/shared/t/gone")
    folder = tmp_path / "up"
    for name in ("x", "y", "z"):
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        (folder / "deep" / name).write_bytes(os.urandom(200_000))
    client.upload("/shared/t/up", str(folder), n_threads=3)
    client.download("/shared/t/up", str(tmp_path / "down"), n_threads=3)
    for name in ("x", "y", "z"):
        assert (tmp_path / "down" / "deep" / name).read_bytes() == (folder / "deep" / name).read_bytes()
    assert client.delete("/shared/t", recursive=True) is True
    assert client.delete("/shared/t") is False


@by_folder
def test_fsspec_writes_lists_seeks_and_appends(portal: Portal, client: TokenClient, token: str, tmp_path: Path) -> None:
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    files = fsspec.filesystem("webhdfs", host=host, port=int(port), token=token, skip_instance_cache=True)
    files.makedirs("/shared/t/deep/er")
    with files.open("/shared/t/deep/one", "wb", block_size=300_000) as out:
        for number in range(10):
            out.write(b"%d" % number * 100_000)  # each block but the first is appended
    with files.open("/shared/t/deep/one", block_size=1000) as wanted:
        wanted.seek(199_999)
        assert wanted.read(2) == b"12"
        wanted.seek(-2, os.SEEK_END)
        assert (wanted.read(), wanted.tell()) == (b"99", 1_000_000)
    assert files.cat_file("/shared/t/deep/one", start=99_998, end=100_002) == b"0011"
    assert files.ls("/shared/t/deep", detail=False) == ["/shared/t/deep/er", "/shared/t/deep/one"]
    about = files.info("/shared/t/deep/one")
    assert (about["type"], about["size"], files.modified("/shared/t/deep/one").year > 2000) == ("file", 1_000_000, True)
    files.cp_file("/shared/t/deep/one", "/shared/t/two words")
    files.mv("/shared/t/deep/one", "/shared/t/deep/er/moved")
    assert files.find("/shared/t") == ["/shared/t/deep/er/moved", "/shared/t/two words"]
    assert (files.du("/shared/t"), files.glob("/shared/t/*o*")) == (2_000_000, ["/shared/t/two words"])
    (tmp_path / "up").write_text("a,b\n")
    files.put(str(tmp_path / "up"), "/shared/t/up")
    files.get("/shared/t/deep", str(tmp_path / "down"), recursive=True)
    assert (tmp_path / "down/er/moved").stat().st_size == 1_000_000
    with fsspec.open(f"webhdfs://{host}:{port}/shared/t/up", "r", token=token) as lines:
        assert list(lines) == ["a,b\n"]
    with pytest.raises(FileNotFoundError):
        files.info("/shared/t/gone")
    files.rm("/shared/t", recursive=True)
    assert not files.exists("/shared/t")


@by_folder
def test_smart_open_writes_in_parts_and_reads_lines(portal: Portal, client: TokenClient, token: str) -> None:
    bind = portal.settings["LONGSHORE_BIND"]
    for address in (f"mira@{bind}/user/mira/lines.gz", f"{bind}/shared/t/lines?delegation={token}"):
        with smart_open.open(f"webhdfs://{address}", "wb", transport_params={"min_part_size": 5_000}) as out:
            for number in range(4_000):
                out.write(b"line %d of %d\n" % (number, 4_000))
        with smart_open.open(f"webhdfs://{address}", encoding="ascii") as lines:
            assert [line.split()[1] for line in lines] == [str(number) for number in range(4_000)]
    kept = client.status("/user/mira/lines.gz")["length"]
    assert kept < client.status("/shared/t/lines")["length"] / 2, "it was compressed on the way"


@by_folder
def test_curl_and_wget_work_as_hadoop_s_documents_have_it(portal: Portal, client: TokenClient, tmp_path: Path) -> None:
    token = client._session.params["delegation"]
    address = f"{portal.url}/webhdfs/v1/shared/t/file"
    (tmp_path / "data").write_bytes(b"0123456789" * 1000)
    run("curl", "-sS", "-f", "-L", "-X", "PUT", "-T", str(tmp_path / "data"), f"{address}?op=CREATE&delegation={token}")
    first = run("curl", "-sS", "-i", "-X", "PUT", f"{address}?op=CREATE&overwrite=true&delegation={token}")
    assert "307" in first.splitlines()[0]
    location = next(
        line.split(": ", 1)[1].strip() for line in first.splitlines() if line.lower().startswith("location")
    )
    made = run("curl", "-sS", "-i", "-X", "PUT", "-T", str(tmp_path / "data"), location)
    assert "201" in made
    assert run("curl", "-sS", "-L", f"{address}?op=OPEN&offset=5&length=5&delegation={token}") == "56789"
    if shutil.which("wget"):
        run("wget", "-q", "-O", str(tmp_path / "got"), f"{address}?op=OPEN&delegation={token}")
        assert (tmp_path / "got").read_bytes() == (tmp_path / "data").read_bytes()
    named = f"{address}?op=OPEN&user.name=mira"
    assert " 307 " in run("curl", "-sS", "-i", named).splitlines()[0]
    assert run("curl", "-sS", "-L", f"{named}&offset=5&length=5") == "56789"
    assert run("curl", "-sS", "-L", json.loads(run("curl", "-sS", f"{named}&noredirect=true"))["Location"]) == (
        (tmp_path / "data").read_text()
    )
    if shutil.which("wget"):
        run("wget", "-q", "-O", str(tmp_path / "by-name"), named)
        assert (tmp_path / "by-name").read_bytes() == (tmp_path / "data").read_bytes()
    foreign = f"{portal.url}/webhdfs/v1/user/other?op=LISTSTATUS&user.name=mira"
    assert "AccessControlException" in run("curl", "-sS", foreign)


@pytest.mark.hdfs
@by_folder
def test_hadoop_s_own_client_works_where_a_name_is_trusted(
    portal: Portal, client: TokenClient, hdfs: HdfsBed, tmp_path: Path
) -> None:
    root = portal.url.replace("http://", "webhdfs://")
    InsecureClient(portal.url, user="mira").makedirs("/user/mira/t")
    (tmp_path / "data").write_bytes(b"from hadoop\n")
    local = f"file://{tmp_path}"
    hdfs.fs("-put", "-f", f"{local}/data", f"{root}/user/mira/t/file", user="mira")
    assert "/user/mira/t/file" in hdfs.fs("-ls", f"{root}/user/mira/t", user="mira")
    assert hdfs.fs("-cat", f"{root}/user/mira/t/file", user="mira") == "from hadoop\n"
    hdfs.fs("-get", f"{root}/user/mira/t/file", f"{local}/got", user="mira")
    assert (tmp_path / "got").read_text() == "from hadoop\n"
    assert "CRC32" in hdfs.fs("-checksum", f"{root}/user/mira/t/file", user="mira")
    hdfs.fs("-chmod", "-R", "755", f"{root}/user/mira/t", user="mira")
    hdfs.fs("-mkdir", "-p", f"{root}/mira/code", user="mira")
    hdfs.fs("-put", f"{local}/data", f"{root}/mira/code/train.py", user="mira")
    assert "-rw-------" in hdfs.fs("-ls", f"{root}/mira/code", user="mira")
    hdfs.fs("-rm", "-r", "-skipTrash", f"{root}/user/mira/t", user="mira")
    assert "t" not in InsecureClient(portal.url, user="mira").list("/user/mira")


@pytest.mark.hdfs
@by_folder
def test_hadoop_3_does_all_that_its_shell_can(portal: Portal, client: TokenClient, tmp_path: Path) -> None:
    need("hdfs", client3_missing())
    root, local = f"webhdfs://{portal.settings['LONGSHORE_BIND']}/user/mira/three", f"file://{tmp_path}"

    def shell(*arguments: str) -> str:
        return fs3(tmp_path / "hadoop", *arguments, user="mira")

    def fails(*arguments: str) -> str:
        return fs3(tmp_path / "hadoop", *arguments, user="mira", check=False)

    (tmp_path / "up/deep").mkdir(parents=True)
    (tmp_path / "up/deep/data").write_bytes(b"from hadoop\n")
    shell("-mkdir", "-p", f"{root}/a/b")
    shell("-put", f"{local}/up", f"{root}/a")
    shell("-touchz", f"{root}/a/none")
    listed = shell("-ls", "-R", f"{root}/a")
    assert [line.rpartition("/three/")[2] for line in listed.splitlines()] == [
        "a/b",
        "a/none",
        "a/up",
        "a/up/deep",
        "a/up/deep/data",
    ]
    shell("-get", f"{root}/a", f"{local}/got")
    assert (tmp_path / "got/up/deep/data").read_bytes() == b"from hadoop\n"
    shell("-cp", "-p", f"{root}/a", f"{root}/copy")
    shell("-mv", f"{root}/copy/up/deep/data", f"{root}/moved")
    assert (shell("-cat", f"{root}/moved"), shell("-tail", f"{root}/moved")) == ("from hadoop\n", "from hadoop\n")
    assert shell("-du", "-s", root).split()[:2] == ["24", "24"]
    assert shell("-count", root).split()[:3] == ["9", "4", "24"]
    assert shell("-stat", "%F %u %r %b", f"{root}/moved") == "regular file mira 1 12\n"
    assert fails("-test", "-d", f"{root}/moved").startswith("1:")
    shell("-chmod", "-R", "700", root)
    shell("-chown", "-R", "mira", root)
    shell("-touch", "-t", "20190504:030201", f"{root}/moved")
    assert shell("-stat", "%y", f"{root}/moved").startswith("2019-05-0")
    shell("-setrep", "1", f"{root}/moved")
    assert "set for the whole store" in fails("-setrep", "3", f"{root}/moved")
    assert "user::rwx" in shell("-getfacl", root)
    assert "MODIFYACLENTRIES is not supported here" in fails("-setfacl", "-m", "user:noa:r--", root)
    shell("-rm", "-r", root)
    assert "No such file" in fails("-ls", root)


def test_an_upload_that_breaks_off_leaves_nothing(portal: Portal, client: TokenClient) -> None:
    token = client._session.params["delegation"]
    client.makedirs("/shared/t")
    host, port = portal.settings["LONGSHORE_BIND"].split(":")
    for length in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
        with socket.create_connection((host, int(port)), LIMIT) as wire:
            head = (
                f"PUT /webhdfs/v1/shared/t/half?op=CREATE&data=true&delegation={token} HTTP/1.1\r\nHost: x\r\n{length}"
            )
            wire.sendall(f"{head}\r\n\r\n400\r\n{'x' * 1024}\r\n".encode())
    until(lambda: client.list("/shared/t") == [], 10, what="nothing of it is left")


def test_a_large_file_passes_in_constant_memory(portal: Portal, client: TokenClient) -> None:
    (web,) = portal.running("web")
    piece, count = os.urandom(1 << 20), 192
    before = peak(web)
    client.write("/shared/t/big", data=(piece for _ in range(count)))
    assert client.status("/shared/t/big")["length"] == count << 20
    size = 0
    with client.read("/shared/t/big", chunk_size=1 << 20) as chunks:
        for chunk in chunks:
            size += len(chunk)
    assert size == count << 20
    client.delete("/shared/t/big")
    grown = peak(web) - before
    assert grown < 50 << 20, f"the web process grew by {grown >> 20} MB"


def peak(pid: int) -> int:
    """Most bytes of memory the process ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} is gone")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout
