"""Programs written for the older system use Longshore, unchanged: only the address is another one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.clients import PAICLI, JsSdk, PaiCli
from tests.acceptance.portal import Portal, config, portal_on
from tests.bed.docker_bed import BedNode
from tests.helpers import LIMIT

pytestmark = pytest.mark.docker
LONG = "sleep 300"


@pytest.fixture(scope="module")
def portal(docker_engine: BedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    with portal_on(tmp_path_factory.mktemp("portal"), docker_engine, LONGSHORE_ANONYMOUS_READ="all") as one:
        yield one
        one.stop_all()
        one.wait_clean(docker_engine)


@pytest.fixture(scope="module")
def password(portal: Portal) -> str:
    return (portal.home / "secrets" / "admin-password").read_text().strip()


@pytest.fixture(scope="module")
def sdk(portal: Portal, password: str, tmp_path_factory: pytest.TempPathFactory) -> JsSdk:
    """As somebody has it who configured ``pai_uri`` and no more: it asks below /rest-server."""
    sdk = JsSdk.install(tmp_path_factory.mktemp("sdk"))
    sdk.cluster = {"username": "admin", "password": password, "pai_uri": portal.url}
    return sdk


@pytest.fixture(scope="module")
def cli(portal: Portal, password: str, tmp_path_factory: pytest.TempPathFactory) -> PaiCli:
    cli = PaiCli.install(tmp_path_factory.mktemp("paicli"))
    host, _, port = portal.url.removeprefix("http://").rpartition(":")
    cli.pai("config", typed=f"{host}\n{port}\nadmin\n{password}\n")
    cli.pai("token")
    return cli


def test_the_js_sdk_signs_in(sdk: JsSdk) -> None:
    answer = sdk.value("", "login")
    assert answer["user"] == "admin"
    assert (answer["admin"], answer["hasGitHubPAT"]) == (True, False)
    assert sdk.value("", "token").count(".") == 2


def test_the_js_sdk_is_told_how_to_sign_in(sdk: JsSdk) -> None:
    assert sdk.value("authn", "info") == {
        "authn_type": "basic",
        "loginURI": "/api/v1/authn/basic/login",
        "loginURIMethod": "post",
    }


def test_the_js_sdk_submits_watches_stops_and_deletes_a_job(portal: Portal, sdk: JsSdk) -> None:
    body = sdk.value("job", "submit", "admin", config("sdk", LONG))  # a nested form
    assert (body["name"], body["jobStatus"]["state"]) == ("sdk", "WAITING")
    portal.wait_running("sdk")
    assert "sdk" in [job["name"] for job in sdk.value("job", "list")]
    assert [job["name"] for job in sdk.value("job", "list", "username=admin&state=RUNNING")] == ["sdk"]
    assert sdk.value("job", "get", "admin", "sdk")["jobStatus"]["state"] == "RUNNING"
    assert sdk.value("job", "getFrameworkInfo", "admin", "sdk")["name"] == "admin~sdk"
    assert sdk.value("job", "execute", "admin", "sdk", "STOP") == {"message": "execute job sdk successfully"}
    assert portal.wait_state("sdk")["state"] == "STOPPED"
    assert sdk.value("job", "delete", "admin", "sdk") == {"message": "deleted job sdk successfully"}
    gone = sdk.call("job", "get", "admin", "sdk")
    assert (gone["status"], json.loads(gone["body"])["code"]) == (404, "NoJobError")


def test_the_js_sdk_reads_ssh_info(portal: Portal, sdk: JsSdk) -> None:
    portal.submit(config("sdk-ssh", LONG))
    portal.wait_running("sdk-ssh")
    for arguments in (("admin", "sdk-ssh"), ("admin~sdk-ssh",)):
        answer = sdk.call("job", "getSshInfo", *arguments)
        assert_ssh_info(answer.get("status", 200), answer.get("value") or json.loads(answer["body"]))
    portal.stop("sdk-ssh")


def test_the_js_sdk_is_told_of_a_taken_name(portal: Portal, sdk: JsSdk) -> None:
    portal.submit(config("taken"))
    answer = sdk.call("job", "submit", "admin", config("taken"))
    assert (answer["status"], answer["body"]["code"]) == (409, "ConflictJobError")


def test_the_pai_command_of_the_sdk_submits_lists_shows_and_finds_the_ssh_port(
    portal: Portal, sdk: JsSdk, password: str
) -> None:
    token = sdk.value("", "token")
    sdk.pai("addc", portal.url, "admin", token, "--alias", "here")
    assert portal.url in sdk.pai("listc")
    (sdk.folder / "job.json").write_text(json.dumps(config("pai-command", LONG)))
    assert "successfully" in sdk.pai("subj", "here", str(sdk.folder / "job.json"))
    task = portal.wait_running("pai-command")
    assert "pai-command" in sdk.pai("listj", "here")
    said = sdk.pai("getj", "here", "pai-command")
    assert json.loads(said[said.index("{") :])["jobStatus"]["state"] == "RUNNING"
    ssh = f"ssh -oStrictHostKeyChecking=no -l root -p {task['containerPorts']['ssh']} {task['containerIp']}"
    assert ssh in sdk.pai("ssh", "here", "pai-command")
    portal.stop("pai-command")
    assert portal.wait_state("pai-command")["state"] == "STOPPED"


def test_paicli_submits_lists_and_stops_a_job(portal: Portal, cli: PaiCli) -> None:
    (cli.folder / "job.json").write_text(json.dumps(config("paicli", LONG), indent=2))
    assert "Successfully submitted!" in cli.pai("submit", "job.json")
    task = portal.wait_running("paicli")
    row = next(line for line in cli.pai("jobs", "-s", "RUNNING").splitlines() if "paicli" in line)
    assert row.split()[:3] == ["paicli", "admin", "default"]
    assert str(task["containerPorts"]["http"]) in cli.pai("host", "paicli")
    assert "Stop signal submitted!" in cli.pai("stop", "paicli")
    assert portal.wait_state("paicli")["state"] == "STOPPED"


def test_paicli_reads_ssh_info(portal: Portal, cli: PaiCli) -> None:
    portal.submit(config("paicli-ssh", LONG))
    portal.wait_running("paicli-ssh")
    done = cli.attempt(PAICLI, "ssh", "--dryrun", "paicli-ssh")
    portal.stop("paicli-ssh")
    if done.returncode:
        assert "Wrong job name or SSH is not ready yet." in done.stdout
        assert "404" in done.stdout
    else:
        assert done.stdout.startswith("ssh -i ")


def test_curl_as_the_old_documents_write_it(portal: Portal, password: str) -> None:
    api = f"{portal.url}/rest-server/api/v1"
    form = ("-d", "username=admin", "--data-urlencode", f"password={password}", "-d", "expiration=3600")
    token = curl("-X", "POST", f"{api}/token", *form)["token"]
    signed = ("-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json")
    job = curl("-X", "POST", *signed, "-d", json.dumps(config("curl", LONG)), f"{api}/user/admin/jobs")
    assert job["name"] == "curl"
    portal.wait_running("curl")
    assert curl(f"{api}/user/admin/jobs/curl")["jobStatus"]["state"] == "RUNNING"
    assert "curl" in [each["name"] for each in curl(f"{api}/jobs")]
    assert curl(f"{api}/user/admin/jobs/curl/config") == config("curl", LONG)
    stop = curl("-X", "PUT", *signed, "-d", '{"value": "STOP"}', f"{api}/user/admin/jobs/curl/executionType")
    assert stop == {"message": "execute job curl successfully"}
    assert portal.wait_state("curl")["state"] == "STOPPED"


def assert_ssh_info(status: int, body: dict[str, Any]) -> None:
    """v1's shape, or its answer when no container has an sshd."""
    if status == 404:
        assert body["code"] == "NoJobSshInfoError"
    else:
        assert body.keys() == {"containers", "keyPair"}
        assert all(isinstance(each["sshPort"], str) for each in body["containers"])
        assert "privateKeyDirectDownloadLink" in body["keyPair"]


def curl(*arguments: str) -> Any:
    done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
