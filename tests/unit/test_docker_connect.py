"""Clients of one engine that several threads share."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.engines.docker import connect as docker_connect
from clusters.engines.docker.connect import Ways


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Login:
    """A login that succeeded."""

    def get_transport(self) -> Login:
        return self

    def set_keepalive(self, seconds: int) -> None:
        pass


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    monkeypatch.setattr(Ways, "_client", lambda self, timeout: Client())
    return Ways("ssh://root@gpu-01")


def test_one_slow_answer_does_not_cut_off_who_shares_its_connection(ways: Ways) -> None:
    mine, slow = ways.quick(), ways.quick()
    client: Any = mine.__enter__()
    with pytest.raises(TimeoutError), slow:
        raise TimeoutError("timed out")
    assert not client.closed
    with ways.quick() as other:
        assert other is not client, "a connection that broke is given to nobody any more"
    mine.__exit__(None, None, None)
    assert client.closed, "the last who used it closes it"
    with ways.quick() as again:
        assert again is other


@pytest.mark.parametrize(("drops", "comes"), [(2, True), (9, False)])
def test_a_login_that_sshd_dropped_is_tried_again_a_few_times(
    monkeypatch: pytest.MonkeyPatch, drops: int, comes: bool
) -> None:
    left = [EOFError()] * drops

    def connect(adapter: Any) -> None:
        if left:
            raise left.pop()

    monkeypatch.setattr(docker_connect.SSHHTTPAdapter, "_connect", connect)
    monkeypatch.setattr(docker_connect, "_LOGIN_PAUSES", (0.0, 0.0, 0.0))
    adapter = docker_connect._SSHAdapter.__new__(docker_connect._SSHAdapter)
    adapter.ssh_client = Login()
    if comes:
        adapter._connect()
        return
    with pytest.raises(EOFError):
        adapter._connect()
