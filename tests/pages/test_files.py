"""The Files page: what it shows, what it lets whom do, and how it looks and works in a browser."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from playwright.sync_api import expect

from base.files.quota import use as quota_use
from base.files.store import open_store, rules
from base.files.store.base import PathNotFound, StoreUnavailable
from base.files.store_actor import StoreActor
from base.models import AuditEvent, User
from portal.files import queries, tars
from tests.helpers import LIMIT
from tests.http import Client
from tests.pages.conftest import Tab

Browse = Callable[[User | None], Client]
HOME = "/files/user/alice"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63606060000000040001f61738550000000049454e44ae426082"
)


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HOME = tmp_path
    monkeypatch.setattr(quota_use, "PATIENCE", LIMIT)  # a write that waits for a count waits for all of it


def put(path: str, content: bytes = b"x") -> None:
    open_store().write(path, [content], owner="alice")


def content(path: str) -> bytes:
    with open_store().open_read(path) as file:
        return file.read()


def names(client: Client, url: str) -> list[str]:
    return [row.entry.name for row in client.get(url).context["list"]["rows"]]


@pytest.mark.django_db
class TestLooking:
    def test_a_guest_signs_in_first(self, browse: Browse) -> None:
        assert browse(None).get("/files").status_code == 302
        assert browse(None).post(f"{HOME}?do=delete").status_code == 302

    @pytest.mark.parametrize(
        "name", ["new\nline", "a\tb", "-lead", " a ", "100%25", "q?x=1&y#z", "é🎉", "[g]*", "a" * 255]
    )
    def test_a_file_of_any_name_is_opened_renamed_and_deleted(self, browse: Browse, alice: User, name: str) -> None:
        put(f"/user/alice/{name}")
        client, url = browse(alice), f"{HOME}/{quote(name)}"
        assert url in client.get(HOME).content.decode()
        assert [client.get(f"{url}{what}").status_code for what in ("", "?do=rename", "?do=delete")] == [200] * 3
        new = f"{name.strip()[:250]} 2"
        client.post(f"{url}?do=rename", {"name": new})
        assert names(client, HOME) == [new]
        client.post(f"{HOME}/{quote(new)}?do=delete")
        assert names(client, HOME) == []

    @pytest.mark.parametrize("url", ["/files/users/alice", "/files/users", "/files/Container", "/files/shared"])
    def test_no_way_leads_to_an_error_while_nothing_is_there_yet(self, browse: Browse, alice: User, url: str) -> None:
        assert browse(alice).get(url).status_code == 200
        assert browse(alice).get("/files/nothing").status_code == 404

    def test_an_unfinished_copy_of_pai_fs_is_shown(self, browse: Browse, alice: User) -> None:
        part = ".b.txt.0123456789ab.pai-fs-part"
        for name in (".hidden", part, "a"):
            put(f"/user/alice/{name}")
        assert names(browse(alice), HOME) == [part, "a"], "it takes room"

    def test_folders_come_first_and_hidden_files_are_asked_for(self, browse: Browse, alice: User) -> None:
        for name in ("b.txt", "A.txt", ".hidden", "z/file"):
            put(f"/user/alice/{name}")
        client = browse(alice)
        assert names(client, HOME) == ["z", "A.txt", "b.txt"]
        assert names(client, f"{HOME}?hidden=1") == ["z", ".hidden", "A.txt", "b.txt"]
        assert names(client, f"{HOME}?q=TXT") == ["A.txt", "b.txt"]
        assert names(client, f"{HOME}/.hidden") == ["z", ".hidden", "A.txt", "b.txt"]

    def test_it_sorts_and_pages(self, browse: Browse, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queries, "ROWS", 3)
        for number in range(8):
            put(f"/user/alice/f{number}", b"x" * (number + 1))
        client = browse(alice)
        assert names(client, f"{HOME}?sort=-size") == ["f7", "f6", "f5"]
        middle = client.get(f"{HOME}?page=2").context["list"]
        assert [row.entry.name for row in middle["rows"]] == ["f3", "f4", "f5"]
        assert (middle["newer"], middle["older"]) == (HOME, f"{HOME}?page=3")
        assert names(client, f"{HOME}?page=999999") == ["f6", "f7"]
        assert names(client, f"{HOME}/f7?sort=-size&page=3") == ["f7", "f6", "f5"]
        assert names(client, f"{HOME}?sort=nonsense&page=-1") == ["f0", "f1", "f2"]

    def test_a_large_folder_is_one_page_of_rows(self, browse: Browse, alice: User, tmp_path: Path) -> None:
        put("/user/alice/many/a")
        folder = tmp_path / "store/user/alice/many"
        for number in range(2_000):
            (folder / f"f{number}").touch()
        answer = browse(alice).get(f"{HOME}/many")
        assert "2,001 entries" in answer.context["list"]["says"]
        assert len(answer.context["list"]["rows"]) == queries.ROWS and len(answer.content) < 400_000

    def test_another_user_s_files_do_not_exist_for_him(
        self, browse: Browse, alice: User, bob: User, admin: User
    ) -> None:
        put("/user/alice/secret")
        client = browse(bob)
        for do in ("", "picture", "tar", "folder", "rename", "delete"):
            for url in (HOME, f"{HOME}/secret"):
                assert client.get(f"{url}?do={do}").status_code == 404, (url, do)
        for do in ("upload", "check", "folder", "rename", "delete"):
            sent = {"name": "x", "names": '["x"]', "file": SimpleUploadedFile("x", b"x")}
            assert client.post(f"{HOME}?do={do}", sent).status_code == 404, do
        assert names(client, "/files/user") == []
        assert client.get("/files/user?do=delete&name=alice/secret").status_code == 404
        assert client.post("/files/user?do=delete", {"names": '["alice/secret"]'}).status_code == 404
        assert content("/user/alice/secret") == b"x"
        assert names(browse(admin), HOME) == ["secret"]

    def test_its_address_is_copied_as_a_job_s_config_wants_it(self, browse: Browse, alice: User, settings: Any) -> None:
        settings.DEFAULT_FS_URI = "hdfs://nn1:9000"
        put("/user/alice/my code/a")
        panel = browse(alice).get(f"{HOME}/my code").context["panel"]
        assert panel["in_job"] == "$PAI_DEFAULT_FS_URI/user/alice/my code"
        assert rules.path_of(panel["uri"]) == "/user/alice/my code"

    @pytest.mark.parametrize("path", ["/files", "/files/user", "/files/user/alice/a"])
    def test_what_is_no_folder_of_one_s_own_is_no_tar(self, browse: Browse, alice: User, path: str) -> None:
        put("/user/alice/a")
        assert browse(alice).get(f"{path}?do=tar").status_code == 400

    def test_a_folder_that_is_too_large_is_left_to_other_tools(
        self, browse: Browse, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put("/user/alice/out/a", b"12345")
        monkeypatch.setattr(tars, "LARGEST", 4)
        assert "pai-fs" in browse(alice).get(f"{HOME}/out?do=tar").content.decode()

    def test_one_s_own_folder_is_there_before_its_first_file(self, browse: Browse, alice: User) -> None:
        page = browse(alice).get(HOME)
        assert page.status_code == 200 and "This folder is empty" in page.content.decode()
        with pytest.raises(PathNotFound):
            open_store().stat("/user/alice")
        assert browse(alice).get(f"{HOME}/gone").status_code == 404
        assert "My files" in browse(alice).get("/files").content.decode()

    def test_text_is_shown_and_never_taken_for_markup(self, browse: Browse, alice: User) -> None:
        client = browse(alice)
        put("/user/alice/x.html", b"<script>alert(1)</script>\xff")
        page = client.get(f"{HOME}/x.html").content.decode()
        assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page and "not UTF-8" in page
        put("/user/alice/long.log", "ä".encode() * 100_000)
        shown = client.get(f"{HOME}/long.log").context["preview"]
        assert (len(shown.text), shown.says) == (32 * 1024, "The first 64 KB.")
        put("/user/alice/model.bin", b"\0\1\2")
        assert client.get(f"{HOME}/model.bin").context["preview"].kind == "binary"
        put("/user/alice/none", b"")
        assert client.get(f"{HOME}/none").context["preview"].kind == "empty"

    @pytest.mark.parametrize(
        ("head", "kind"),
        [
            (PNG, "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ],
    )
    def test_a_picture_is_what_its_bytes_say(self, browse: Browse, alice: User, head: bytes, kind: str) -> None:
        put("/user/alice/a.txt", head)
        answer = browse(alice).get(f"{HOME}/a.txt?do=picture")
        assert (answer["Content-Type"], answer["X-Content-Type-Options"]) == (kind, "nosniff")
        assert "sandbox" in answer["Content-Security-Policy"]
        assert answer.getvalue() == head

    @pytest.mark.parametrize("text", [b"<svg onload=alert(1)>", b"<html><script>", b"", b"GIF"])
    def test_nothing_else_is_served_as_a_picture(self, browse: Browse, alice: User, text: bytes) -> None:
        put("/user/alice/a.png", text)
        assert browse(alice).get(f"{HOME}/a.png?do=picture").status_code == 400

    @pytest.mark.parametrize("url", ["/files/..%2f..%2fetc", "/files/a/../../etc", "/files/a%00b", "/files/a?do=x"])
    def test_no_address_leads_out_of_the_store(self, browse: Browse, alice: User, url: str) -> None:
        assert browse(alice).get(url).status_code in (400, 404)

    def test_a_store_that_is_down_is_said_at_once(self, browse: Browse, alice: User, settings: Any) -> None:
        settings.STORE_URL = "webhdfs://127.0.0.1:9"
        for answer in (browse(alice).get(HOME), browse(alice).get(f"{HOME}?now=1")):
            assert answer.status_code == 503 and "Running jobs go on" in answer.content.decode()
        sent = browse(alice).post(f"{HOME}?do=upload", {"file": SimpleUploadedFile("a", b"x"), "end": "1"})
        assert sent.status_code == 503 and "may not be there" in sent.content.decode()
        assert browse(alice).post(f"{HOME}?do=check", {"names": '["a"]'}).json()["message"]

    def test_a_file_that_cannot_be_read_leaves_the_list(
        self, browse: Browse, alice: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put("/user/alice/a.txt")

        def broken(*_: Any) -> None:
            raise StoreUnavailable("A DataNode cannot be reached.")

        monkeypatch.setattr("portal.files.preview.preview", broken)
        page = browse(alice).get(f"{HOME}/a.txt")
        assert page.status_code == 200 and "A DataNode cannot be reached." in page.content.decode()


@pytest.mark.django_db
class TestChanging:
    def test_files_are_uploaded_without_a_script(self, browse: Browse, alice: User) -> None:
        client = browse(alice)
        sent = [SimpleUploadedFile("a b%.txt", b"one"), SimpleUploadedFile("big", b"x" * (3 << 20))]
        assert client.post(f"{HOME}/new?do=upload", {"file": sent, "end": "1"}).status_code == 302
        assert content("/user/alice/new/a b%.txt") == b"one" and len(content("/user/alice/new/big")) == 3 << 20
        assert open_store().stat("/user/alice/new/big").owner == "alice"
        again = client.post(f"{HOME}/new?do=upload", {"file": [SimpleUploadedFile("a b%.txt", b"two")], "end": "1"})
        assert again.status_code == 409 and "there already" in again.content.decode()
        assert content("/user/alice/new/a b%.txt") == b"one"
        client.post(
            f"{HOME}/new?do=upload", {"end": "1", "replace": "1", "file": [SimpleUploadedFile("a b%.txt", b"two")]}
        )
        assert content("/user/alice/new/a b%.txt") == b"two"
        assert client.post(f"{HOME}/new?do=upload").status_code == 400

    def test_an_upload_beyond_the_quota_is_refused_and_the_page_says_how_much_there_is(
        self, browse: Browse, alice: User, settings: Any
    ) -> None:
        settings.STORE_QUOTA = 2048
        put("/users/alice/there", b"x" * 1024)
        file = SimpleUploadedFile("large.bin", b"x" * 1025)
        answer = browse(alice).post(f"{HOME}?do=upload", {"file": file, "end": "1"})
        assert answer.status_code == 403
        assert "2.0 KB in the store, and 1,024 B of that is free: 1,025 B more does not fit" in answer.content.decode()
        assert " 1.0 KB of 2.0 KB " in answer.content.decode()
        with pytest.raises(PathNotFound):
            open_store().stat("/user/alice/large.bin")

    def test_of_several_files_those_that_fitted_are_there_and_the_page_names_them(
        self, browse: Browse, alice: User, settings: Any
    ) -> None:
        settings.STORE_QUOTA = 2048
        sent = [SimpleUploadedFile(name, b"x" * 1025) for name in ("first", "second")]
        answer = browse(alice).post(f"{HOME}?do=upload", {"file": sent, "end": "1"})
        page = answer.content.decode()
        assert answer.status_code == 403 and "first is uploaded" in page and "more does not fit" in page
        assert names_in_store("/user/alice") == ["first"]

    def test_without_a_quota_nothing_is_counted(self, browse: Browse, alice: User) -> None:
        assert browse(alice).get(HOME).context["quota"] == ""

    def test_an_upload_that_broke_off_leaves_nothing(self, browse: Browse, alice: User) -> None:
        """The server tells a broken connection as the end of the body, and Django takes what came for all of it."""
        edge, head = "xXx", 'Content-Disposition: form-data; name="file"; filename="a"'
        sent = f"--{edge}\r\n{head}\r\n\r\nhalf of it".encode()
        answer = browse(alice).post(f"{HOME}?do=upload", sent, content_type=f"multipart/form-data; boundary={edge}")
        assert answer.status_code == 400 and "broke off" in answer.content.decode()
        assert names_in_store("/user/alice") == []

    def test_large_uploads_lie_on_the_disk_and_not_in_memory(self, settings: Any) -> None:
        assert settings.FILE_UPLOAD_MAX_MEMORY_SIZE <= 4 << 20
        assert settings.FILE_UPLOAD_HANDLERS[-1].endswith("TemporaryFileUploadHandler")

    def test_a_form_of_another_site_does_nothing(self, alice: User) -> None:
        put("/user/alice/a")
        client = Client()
        client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
        for do in ("upload", "check", "folder", "rename", "delete"):
            assert client.post(f"{HOME}/a?do={do}", {"name": "b"}).status_code == 403
        assert content("/user/alice/a") == b"x"

    def test_it_tells_which_are_there_before_an_upload(self, browse: Browse, alice: User) -> None:
        put("/user/alice/a")
        put("/user/alice/sub/b")
        sent = {"names": '["a", "new", "sub/b", "sub/new", "no/b"]'}
        assert browse(alice).post(f"{HOME}?do=check", sent).json() == {"exists": ["a", "sub/b"]}
        for bad in ('["../x"]', "{}", "", "[1]"):
            assert browse(alice).post(f"{HOME}?do=check", {"names": bad}).status_code == 400

    def test_folders_are_made_and_things_renamed_and_moved(self, browse: Browse, alice: User) -> None:
        client = browse(alice)
        put("/user/alice/a")
        assert client.post(f"{HOME}?do=folder", {"name": "sub"}).status_code == 302
        assert open_store().stat("/user/alice/sub").owner == "alice"
        for name, status in (("sub", 409), ("../x", 400), ("x/y", 400), ("", 400), ("n" * 300, 400)):
            answer = client.post(f"{HOME}?do=folder", {"name": name})
            assert answer.status_code == status and f'value="{name}"' in answer.content.decode(), name
        assert 'value="a"' in client.get(f"{HOME}/a?do=rename").content.decode()
        assert client.post(f"{HOME}/a?do=rename", {"name": "sub"}).status_code == 409
        assert client.post(f"{HOME}/a?do=rename", {"name": "/user/bob/a"}).status_code == 404
        assert client.post(f"{HOME}/a?do=rename", {"name": "/data/a"}).status_code == 403
        assert client.post(f"{HOME}/a?do=rename", {"name": "/user/alice/no/a"}).status_code == 404
        assert client.post(f"{HOME}/sub?do=rename", {"name": "/user/alice/sub/in"}).status_code == 400
        client.post(f"{HOME}/a?do=rename", {"name": "b"})
        client.post(f"{HOME}/b?do=rename", {"name": "/user/alice/sub/c"})
        assert content("/user/alice/sub/c") == b"x"

    def test_the_question_says_how_much_is_gone(self, browse: Browse, alice: User) -> None:
        client = browse(alice)
        put("/user/alice/sub/deep/file", b"12345")
        put("/user/alice/a", b"1" * 2048)
        put("/user/alice/b")
        assert "1 file in 2 folders, 5 B." in client.get(f"{HOME}/sub?do=delete").content.decode()
        assert "The file has 2.0 KB." in client.get(f"{HOME}/a?do=delete").content.decode()
        both = client.get(f"{HOME}?do=delete&selected=1&name=a&name=sub").content.decode()
        assert "Delete 2 entries?" in both and "2 files in 2 folders, 2.0 KB." in both
        assert client.get(f"{HOME}?do=delete&selected=1").status_code == 302
        client.post(f"{HOME}?do=delete", {"names": '["a", "sub"]', "count": "2"})
        assert names(client, HOME) == ["b"]
        assert AuditEvent.objects.filter(action="files deleted").count() == 2

    def test_many_files_want_their_number_typed(self, browse: Browse, alice: User) -> None:
        client = browse(alice)
        for number in range(21):
            put(f"/user/alice/many/{number}")
        assert "Type 21 to confirm" in client.get(f"{HOME}/many?do=delete").content.decode()
        assert client.post(f"{HOME}/many?do=delete", {"count": "21", "typed": "2"}).status_code == 400
        assert client.post(f"{HOME}/gone?do=delete", {"count": "²"}).status_code == 302
        assert client.post(f"{HOME}/many?do=delete", {"count": "21", "typed": "21"}).status_code == 302
        assert client.get(f"{HOME}/many").status_code == 404

    @pytest.mark.parametrize("path", ["/user/alice", "/user", "/shared", ""])
    def test_the_root_of_a_tree_is_not_deleted(self, browse: Browse, alice: User, path: str) -> None:
        put("/user/alice/a")
        put("/shared/a")
        for do in ("rename", "delete"):
            assert browse(alice).get(f"/files{path}?do={do}").status_code == 403
            assert browse(alice).post(f"/files{path}?do={do}", {"name": "x"}).status_code == 403
        assert content("/user/alice/a") == content("/shared/a") == b"x"

    def test_only_admins_write_outside_their_own_and_the_shared(self, browse: Browse, alice: User, admin: User) -> None:
        put("/data/set/a")
        page = browse(alice).get("/files/data/set").content.decode()
        assert "Upload" not in page and "Delete" not in page
        for do in ("upload", "folder"):
            sent = {"name": "x", "file": SimpleUploadedFile("x", b"x")}
            assert browse(alice).post(f"/files/data/set?do={do}", sent).status_code == 403
        assert browse(admin).post("/files/data/set?do=folder", {"name": "x"}).status_code == 302


@pytest.mark.django_db
class TestTar:
    def test_a_folder_is_one_tar(self, browse: Browse, alice: User) -> None:
        put("/user/alice/out/model.bin", b"m" * 3_000_000)
        put("/user/alice/out/sub/ü" + "n" * 200, b"deep")
        answer = browse(alice).get(f"{HOME}/out?do=tar")
        assert answer["Content-Disposition"] == 'attachment; filename="out.tar"'
        found = tarfile.open(fileobj=io.BytesIO(answer.getvalue()))
        files = {each.name: found.extractfile(each).read() for each in found if each.isfile()}  # type: ignore[union-attr]
        assert files == {"out/model.bin": b"m" * 3_000_000, "out/sub/ü" + "n" * 200: b"deep"}

    def test_few_are_made_at_once_and_one_that_is_left_makes_room(
        self, browse: Browse, alice: User, bob: User, admin: User
    ) -> None:
        put("/user/alice/out/a")
        client = browse(alice)
        begun = [
            tars.FolderTar(StoreActor.of(user, open_store()), "/user/alice/out")
            for user in (bob, admin)
            for _ in range(tars.AT_ONCE // 2)
        ]
        next(iter(begun[0]))
        assert client.get(f"{HOME}/out?do=tar").status_code == 503
        assert client.head(f"{HOME}/out?do=tar").status_code == 200
        for one in begun:
            one.close()
        tars.FolderTar(StoreActor.of(alice, open_store()), "/user/alice/out").close()


@pytest.mark.browser
class TestInTheBrowser:
    def test_several_files_are_uploaded_and_what_is_there_is_asked_about(
        self, tab: Callable[..., Tab], alice: User, tmp_path: Path
    ) -> None:
        put("/user/alice/there #1.txt", b"old")
        for name in ("one.bin", "empty.bin", "there #1.txt"):
            (tmp_path / name).write_bytes(b"" if name == "empty.bin" else name.encode() * 1000)
        shown = tab(alice)
        page = shown.open(HOME)
        page.set_input_files("#upload-files", [str(tmp_path / n) for n in ("one.bin", "empty.bin", "there #1.txt")])
        expect(page.locator("#listing").get_by_role("link", name="one.bin", exact=True)).to_be_visible()
        expect(page.locator("#listing").get_by_role("link", name="empty.bin", exact=True)).to_be_visible()
        assert content("/user/alice/there #1.txt") == b"old"
        shown.check("uploads")
        page.get_by_role("button", name="Replace there #1.txt").click()
        expect(page.locator("#uploads li", has_text="there #1.txt").get_by_role("button")).to_have_count(0)
        expect(page.locator("#said")).to_have_text("3 uploaded")
        assert content("/user/alice/one.bin") == b"one.bin" * 1000
        assert content("/user/alice/there #1.txt") == b"there #1.txt" * 1000
        assert open_store().stat("/user/alice/one.bin").owner == "alice"
        assert not shown.faults

    def test_files_are_dropped(self, tab: Callable[..., Tab], alice: User) -> None:
        page = tab(alice).open(HOME)
        page.evaluate(
            """() => { const sent = new DataTransfer();
                sent.items.add(new File(["dropped"], "d.txt"));
                document.querySelector("#upload").dispatchEvent(
                  new DragEvent("drop", { dataTransfer: sent, bubbles: true, cancelable: true })); }"""
        )
        expect(page.locator("#listing").get_by_role("link", name="d.txt", exact=True)).to_be_visible()
        assert content("/user/alice/d.txt") == b"dropped"

    def test_an_upload_is_cancelled_and_leaves_nothing(
        self, tab: Callable[..., Tab], alice: User, tmp_path: Path
    ) -> None:
        (tmp_path / "big.bin").write_bytes(b"x" * (40 << 20))
        shown = tab(alice)
        page = shown.open(HOME)
        shown.page.context.new_cdp_session(page).send(
            "Network.emulateNetworkConditions",
            {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 100_000},
        )
        page.set_input_files("#upload-files", str(tmp_path / "big.bin"))
        page.get_by_role("button", name="Cancel big.bin").click()
        expect(page.locator("#uploads")).to_contain_text("cancelled")
        assert names_in_store("/user/alice") == []

    def test_what_is_selected_is_deleted_after_a_question(self, tab: Callable[..., Tab], alice: User) -> None:
        for name in ("a.txt", "b.txt", "c.txt"):
            put(f"/user/alice/{name}")
        page = tab(alice).open(HOME)
        page.get_by_label("Select a.txt").check()
        page.get_by_label("Select c.txt").check()
        page.get_by_role("button", name="Delete selected").click()
        page.locator("#dialog").get_by_role("button", name="Delete 2 entries").click()
        expect(page.get_by_text("2 entries are deleted.")).to_be_visible()
        assert names_in_store("/user/alice") == ["b.txt"]

    def test_it_is_used_by_the_keyboard_alone(self, tab: Callable[..., Tab], alice: User) -> None:
        put("/users/alice/a.txt")
        page = tab(alice).open("/jobs")
        page.keyboard.press("g")
        page.keyboard.press("f")
        page.wait_for_url("**/files/users/alice")
        page.keyboard.press("/")
        page.keyboard.type("a.t")
        page.keyboard.press("Enter")
        page.wait_for_url("**q=a.t*")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/a.txt*")
        expect(page.locator("pre")).to_have_text("x")

    def test_it_works_without_a_script(self, tab: Callable[..., Tab], alice: User, tmp_path: Path) -> None:
        (tmp_path / "one.txt").write_text("one")
        page = tab(alice, java_script_enabled=False).open(HOME)
        page.set_input_files("#upload-files", str(tmp_path / "one.txt"))
        page.click("#upload button")
        expect(page.get_by_text("one.txt is uploaded.")).to_be_visible()
        page.get_by_label("Select one.txt").check()
        page.get_by_role("button", name="Delete selected").click()
        page.get_by_role("button", name="Delete one.txt").click()
        expect(page.get_by_text("one.txt is deleted.")).to_be_visible()

    def test_the_page_of_a_store_that_is_down_fills_itself(
        self, tab: Callable[..., Tab], alice: User, settings: Any
    ) -> None:
        put("/user/alice/a.txt")
        settings.STORE_URL = "webhdfs://127.0.0.1:9"
        shown = tab(alice)
        page = shown.open(HOME)
        shown.faults.clear()  # the browser tells of every 503
        shown.check("store down")
        settings.STORE_URL = ""
        expect(page.get_by_role("link", name="a.txt", exact=True)).to_be_visible()

    def test_the_namenode_s_address_of_a_folder_leads_to_it(self, tab: Callable[..., Tab], alice: User) -> None:
        put("/user/alice/sub/one.txt", b"x")
        page = tab(alice).open("/webhdfs/explorer.html#/user/alice/sub/")
        expect(page.get_by_role("link", name="one.txt", exact=True)).to_be_visible()
        assert page.url.endswith("/files/user/alice/sub")


def names_in_store(folder: str) -> list[str]:
    try:
        return [entry.name for entry in open_store().list(folder)]
    except PathNotFound:
        return []


def test_the_navigation_leads_to_a_folder_where_one_can_upload(browse: Browse, alice: User) -> None:
    assert '<a href="/files/users/alice"' in browse(alice).get("/jobs").content.decode()
    assert browse(alice).get("/files/users/alice").context["may_put"]
