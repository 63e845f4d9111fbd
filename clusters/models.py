"""What we own (nodes), how it is shared out (virtual clusters) and what is taken (allocations)."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models

_WORD = "[A-Za-z0-9][A-Za-z0-9_.-]*"


class Cluster(models.Model):
    """A Kubernetes cluster: an engine that stands for many nodes, each of which has a row of its own, named
    ``<cluster>/<host>`` (clusters/nodes/kubernetes). The scheduler writes what it observes."""

    name = models.CharField(max_length=40, unique=True)
    endpoint = models.CharField(max_length=255)  # kubernetes://name/namespace
    tls_dir = models.CharField(max_length=255, blank=True)  # 0700 folder with ``kubeconfig``; "": the pod's own account
    selector = models.JSONField(default=dict)  # labels that a host must have to be a node here
    port_from = models.PositiveIntegerField()  # these three: of hosts that come later
    port_to = models.PositiveIntegerField()
    network = models.CharField(max_length=8)
    version = models.CharField(max_length=40, blank=True)
    sees_others = models.BooleanField(default=True)  # whether what other workloads take is known
    silent_reason = models.TextField(blank=True)  # why it could not be asked; empty: it answers
    last_seen_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """A machine with a container engine. The scheduler writes ``health`` and ``held`` from what it observes."""

    class Status(models.TextChoices):
        ACTIVE = "active"
        CORDONED = "cordoned"  # nothing new is placed
        DRAINING = "draining"  # the same, and what runs is evicted: its jobs go elsewhere, and no retry is used up

    class Health(models.TextChoices):
        READY = "ready"
        UNREACHABLE = "unreachable"

    name = models.CharField(max_length=63, unique=True, validators=[RegexValidator(rf"\A{_WORD}(/{_WORD})?\Z")])
    endpoint = models.CharField(max_length=255)  # unix:///path, tcp://host:port, ssh://user@host, or its cluster's
    # Of a host of a Kubernetes cluster, whose endpoint and keys it has. Its size, GPUs, labels and images are what the
    # cluster says; so are these: {"cpus", "memory_mb", "gpus"} that other workloads take, and why it is not offered.
    cluster = models.ForeignKey(Cluster, models.CASCADE, null=True, related_name="nodes")
    host = models.CharField(max_length=253, blank=True, default="", db_default="")  # its name in the cluster
    others = models.JSONField(null=True)
    closed = models.TextField(blank=True, default="", db_default="")
    address = models.CharField(max_length=255)  # where peers and users reach its containers
    engine_id = models.CharField(max_length=100, blank=True)
    docker_version = models.CharField(max_length=40, blank=True)
    cpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    gpus = models.JSONField(default=list)  # [{"id": "0", "type": "A100"}]
    port_from = models.PositiveIntegerField(default=30000)
    port_to = models.PositiveIntegerField(default=39999)  # inclusive
    fixed_ports = models.JSONField(default=list)  # [[6000, 6100]]: beside these, what a config may ask for by number
    network = models.CharField(max_length=8, default="host")  # host | bridge
    exporter = models.CharField(
        max_length=255, blank=True, default="", db_default=""
    )  # http://gpu-01:9400/metrics: of its GPUs
    labels = models.JSONField(default=dict)
    # Its own node of one virtual cluster; without one it is of the pool, which all share.
    dedicated_to = models.ForeignKey(
        "VirtualCluster", models.SET_NULL, null=True, blank=True, related_name="dedicated_nodes"
    )
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.ACTIVE)
    health = models.CharField(max_length=12, choices=Health.choices, default=Health.READY)
    health_reason = models.TextField(blank=True)
    last_seen_at = models.DateTimeField(null=True)
    unreachable_since = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)  # when an admin said that it is gone for good (clusters/nodes/gone)
    # GPU ids and ports that containers hold which should not be there: {"gpus": ["0"], "ports": [30001]}
    held = models.JSONField(default=dict)
    # Written by clusters/nodes/survey.py and clusters/nodes/refusals.py.
    images = models.JSONField(default=list)  # ["ubuntu:22.04", ...], see clusters/engines/image_names.py
    images_at = models.DateTimeField(null=True)  # when ``images`` last changed
    marks = models.JSONField(default=dict)  # see clusters/nodes/refusals.py
    # Ports on which something that is not Longshore's was found, and until when none of them is given out:
    # {"31000": "2026-11-23T10:15:00+00:00"}
    refused_ports = models.JSONField(default=dict, db_default={})
    # What the engine's disk holds, as of ``at`` (ms since 1970): {"used": bytes, "total": bytes or null, "at"}
    disk = models.JSONField(default=dict)
    surveyed_at = models.DateTimeField(null=True)  # when it was last asked for its images; null: as soon as possible
    tls_dir = models.CharField(max_length=255, blank=True)  # 0700 folder with ca.pem, cert.pem, key.pem (0600)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name


class VirtualCluster(models.Model):
    class Status(models.TextChoices):
        RUNNING = "RUNNING"
        STOPPED = "STOPPED"  # nothing new starts

    class Profile(models.TextChoices):
        DEFAULT = "default"
        PAI = "pai"

    name = models.CharField(max_length=64, unique=True, validators=[RegexValidator(r"\A[A-Za-z0-9_]+\Z")])
    capacity = models.FloatField(default=0)  # guaranteed percent of the cluster
    max_capacity = models.FloatField(default=0)  # most it may borrow up to, percent
    # The same for GPUs as numbers; null: the percentages hold for GPUs too.
    gpu_guarantee = models.PositiveIntegerField(null=True, blank=True)
    gpu_ceiling = models.PositiveIntegerField(null=True, blank=True)
    # What one user may hold in it at once; null: as much as it has.
    user_gpus = models.PositiveIntegerField(null=True, blank=True)
    user_jobs = models.PositiveIntegerField(null=True, blank=True)
    user_priority = models.PositiveSmallIntegerField(default=0, db_default=0)  # how far up its users may set it
    # Hours after which what a user used counts half as much for whose turn it is; 0: only what they hold.
    share_half_life = models.PositiveSmallIntegerField(default=24, db_default=24)
    # The most seconds that its jobs may ask for, from the notice of their end to KILL (jobs/planning/ends.py).
    grace = models.PositiveSmallIntegerField(default=30, db_default=30)
    min_run = models.PositiveSmallIntegerField(default=0, db_default=0)  # minutes that its borrowers are not evicted
    # Minutes without use after which a notebook in it is saved and ends.
    notebook_minutes = models.PositiveSmallIntegerField(default=120, db_default=120)
    status = models.CharField(max_length=8, choices=Status.choices, default=Status.RUNNING)
    # What its containers may do, see clusters.engines.runtime: "pai" is in effect root on the node.
    profile = models.CharField(max_length=8, choices=Profile.choices, default=Profile.DEFAULT)
    rdma = models.BooleanField(default=False)  # its jobs may ask for InfiniBand (jobEnvs.paiAzRDMA)
    # Bytes that the files of each of its users may take; -1: no limit; null: it says nothing.
    store_quota = models.BigIntegerField(null=True, blank=True)
    # How long, and how much of, the logs of its ended jobs are kept; null: for ever, all.
    log_days = models.PositiveIntegerField(null=True, blank=True)
    log_gigabytes = models.PositiveIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class VcGrant(models.Model):
    """A user may submit to a virtual cluster. ``default`` and admins need no grant."""

    vc = models.ForeignKey(VirtualCluster, models.CASCADE, related_name="grants")
    username = models.CharField(max_length=64)
    priority = models.PositiveSmallIntegerField(null=True)  # in place of the virtual cluster's ``user_priority``
    manages = models.BooleanField(default=False, db_default=False)  # what that allows: base/roles.py

    class Meta:
        constraints = [models.UniqueConstraint(fields=["vc", "username"], name="one_grant_per_user")]


class Group(models.Model):
    """A name for several users. Each virtual cluster is also a group: ``vc`` is set, and its members are those with a
    grant. The row of such a group exists only once somebody has described it. A group without ``vc`` is for the
    organisation's own use and grants nothing."""

    name = models.CharField(max_length=64, unique=True, validators=[RegexValidator(r"\A[A-Za-z0-9_]+\Z")])
    vc = models.OneToOneField(VirtualCluster, models.CASCADE, null=True, related_name="group")
    description = models.TextField(blank=True)
    external_name = models.CharField(max_length=255, blank=True)
    extension = models.JSONField(default=dict, blank=True)

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    group = models.ForeignKey(Group, models.CASCADE, related_name="members")
    username = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "username"], name="one_membership_per_user")]


class Allocation(models.Model):
    """What one live owner holds on one node. A row never changes: it is written when the owner is placed and deleted
    when its resources are given back. So what is free is a sum, and no counter can drift. ``owner`` is opaque here
    (jobs: the task's row id)."""

    owner = models.CharField(max_length=64, unique=True)
    node = models.ForeignKey(Node, models.PROTECT, related_name="allocations")
    vc = models.CharField(max_length=64)
    cpus = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField()
    gpu_ids = models.JSONField(default=list)  # ["0", "3"]
    ports = models.JSONField(default=list)  # [30000, 30001]
    created_at = models.DateTimeField(auto_now_add=True)


class Appointment(models.Model):
    """Nodes that are given to somebody from one moment to another (clusters/appointments/rules.py). Of ``vc``,
    ``username`` and ``job`` (user~job) those that are given narrow down whose they are; none: maintenance."""

    title = models.CharField(max_length=100)
    nodes = models.JSONField(default=list)  # names
    vc = models.ForeignKey(VirtualCluster, models.CASCADE, null=True, related_name="appointments")
    username = models.CharField(max_length=64, blank=True)
    job = models.CharField(max_length=320, blank=True)
    begin = models.DateTimeField()
    end = models.DateTimeField()
    weekly = models.BooleanField(default=False)
    zone = models.CharField(max_length=64)  # in which a weekly one keeps its hours
    # A manager made it: its nodes are a part of what the virtual cluster is guaranteed, and add nothing to that.
    is_within = models.BooleanField(default=False, db_default=False)
    made_by = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.title


class KeptImage(models.Model):
    """What was in a container that failed, as an image on its node, for a while (clusters/nodes/snapshots.py)."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="kept_images")
    image = models.CharField(max_length=120, unique=True)
    username = models.CharField(max_length=64)  # who may start something of it, besides admins
    owner = models.BigIntegerField(db_index=True)  # id of the task in jobs
    size = models.BigIntegerField()  # bytes that the container had written; -1 until its image is made
    until = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.image
