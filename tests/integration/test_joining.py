"""A host joins the others on one PostgreSQL only when it shares with them what all need."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.db.models import F
from django.utils import timezone

from base.core.errors import BadRequest
from base.hosts import joining, shared, this_host
from base.hosts.joining import NotShared
from base.models import Heartbeat, Host, Shared, User
from base.wakes import processes
from clusters.engines import own_ssh
from clusters.engines.own_ssh import HostKey
from clusters.models import Node
from clusters.nodes import keys as node_keys
from clusters.nodes import services
from clusters.nodes.serializers import Tls
from portal.management.commands import up
from tests.cluster import Cluster
from tests.keys import make_keys

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="with SQLite there is one host"),
]


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(this_host, "ALIVE", timedelta(hours=1))  # none is gone unless the test says so
    settings.METRICS_DIR = tmp_path / "metrics"
    settings.HOME = tmp_path
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")  # tests have none, see tests/settings.py
    yield
    connection.close()  # and the setting with it


def another(tmp_path: Path, settings: Any) -> None:
    """Be another host from now on, with a LONGSHORE_HOME of its own."""
    settings.HOME = tmp_path / "another"
    settings.HOME.mkdir()


def test_one_with_the_same_keys_and_folders_joins(tmp_path: Path, settings: Any) -> None:
    joining.join("store")
    another(tmp_path, settings)
    joining.join("store")
    assert Host.objects.count() == 2
    assert len(this_host.others()) == 1


def test_one_with_other_keys_does_not(tmp_path: Path, settings: Any) -> None:
    joining.join("store")
    settings.TOKEN_KEY = "another" * 8
    with pytest.raises(NotShared, match="LONGSHORE_SECRET_KEY_FILE and LONGSHORE_TOKEN_KEY_FILE"):
        joining.join("store")
    joining.take_keys()
    joining.join("store")


def test_no_process_begins_with_other_keys(settings: Any) -> None:
    joining.check_keys()
    settings.SECRET_KEY = "another" * 8
    with pytest.raises(CommandError, match="not those of the portal"):
        joining.refuse_other_keys()


def test_the_database_does_not_tell_the_keys(settings: Any) -> None:
    joining.check_keys()
    assert settings.SECRET_KEY not in Shared.objects.get(name="keys").value


@pytest.mark.parametrize("what", ["LONGSHORE_STORE_URL", "LONGSHORE_METRICS"])
def test_one_with_other_folders_does_not(tmp_path: Path, settings: Any, what: str) -> None:
    joining.join("store")
    another(tmp_path, settings)
    if what == "LONGSHORE_METRICS":
        settings.METRICS_DIR = tmp_path / "other-metrics"
    with pytest.raises(NotShared, match=what):
        joining.join("store" if what == "LONGSHORE_METRICS" else "another store")
    Host.objects.update(at=F("at") - this_host.ALIVE)  # the first one is gone
    joining.join("another store")


def test_one_with_a_wrong_clock_does_not(cluster: Cluster) -> None:
    cluster.clock.set = timedelta(minutes=-10)
    with pytest.raises(NotShared, match=r"(599|[6-9]\d\d) s behind that of the database"):
        joining.join("store")


@pytest.mark.parametrize("patience", ["0", "10min"])
def test_one_whose_database_waits_for_a_host_that_hangs_does_not(patience: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = %s", [patience])
    with pytest.raises(NotShared, match="SET idle_in_transaction_session_timeout"):
        joining.join("store")


def test_a_socket_is_no_endpoint_for_several_hosts(tmp_path: Path, settings: Any) -> None:
    joining.join("store")
    Host.objects.update(report={"machine": "another"})
    another(tmp_path, settings)
    Node.objects.create(name="local", endpoint="unix:///var/run/docker.sock", cpus=1, memory_mb=1)
    with pytest.raises(NotShared, match="Node local is at unix:///var/run/docker.sock"):
        up._refuse_sockets()
    admin = User.objects.create_user("admin", "correct horse", is_admin=True)
    with pytest.raises(BadRequest, match="another engine on each host"):
        services.register_node(admin, {"name": "n2", "endpoint": "unix:///var/run/docker.sock"})
    Node.objects.all().delete()
    assert services.register_local_node() is None


def test_keys_of_nodes_reach_other_hosts_and_are_sealed_on_the_way(tmp_path: Path, settings: Any) -> None:
    tls = make_keys()
    folder = node_keys.store("n1", Tls(**tls).files())
    assert not Shared.objects.filter(value__contains="PRIVATE").exists()
    another(tmp_path, settings)
    (tmp_path / "secrets").rename(tmp_path / "not-on-this-host")
    theirs = shared.tls_here(folder)
    assert theirs == tmp_path / "another" / "secrets" / "nodes" / "n1" / Path(folder).name
    assert (theirs / "key.pem").read_text() == tls["key"]
    assert (theirs / "key.pem").stat().st_mode & 0o777 == 0o600
    node_keys.forget(folder)
    assert not Shared.objects.filter(name__startswith="file:").exists()


def test_all_hosts_have_one_ssh_key_and_know_the_same_hosts(tmp_path: Path, settings: Any) -> None:
    mine = own_ssh.public_key()
    own_ssh.accept(HostKey("10.0.0.7", "ssh-ed25519 AAAA", "SHA256:x", False))
    another(tmp_path, settings)
    own_ssh.fetch()
    own_ssh.fetch()
    assert own_ssh.public_key() == mine
    assert (own_ssh.folder() / own_ssh.KNOWN_HOSTS).read_text() == "10.0.0.7 ssh-ed25519 AAAA\n"


def test_what_was_sealed_with_other_keys_is_no_file(settings: Any) -> None:
    shared.put("ssh/x", b"secret")
    settings.SECRET_KEY = "another" * 8
    with pytest.raises(ValueError, match="another LONGSHORE_SECRET_KEY"):
        shared.get("ssh")


def test_a_process_is_not_taken_for_dead_because_clocks_differ(cluster: Cluster) -> None:
    processes.record_heartbeat("workers")
    cluster.clock.set = timedelta(minutes=10)
    assert (processes.ages()["workers"] or 0) < 300, "the ten minutes are not in it"
    assert abs((Heartbeat.objects.get().at - (timezone.now() - cluster.clock.set)).total_seconds()) < 300
