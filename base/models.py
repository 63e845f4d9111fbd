"""Users, their API tokens and keys, the record of what they did, and rows that the portal's processes share."""

from __future__ import annotations

import hashlib
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.core.validators import RegexValidator
from django.db import models
from django.utils.crypto import salted_hmac

from base.roles import Role

USERNAME = RegexValidator(
    r"\A(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,64}\Z", "Use letters, digits, dots, dashes and underscores, 64 at most."
)


class UserManager(BaseUserManager["User"]):
    def create_user(self, username: str, password: str | None = None, *, is_admin: bool = False) -> User:
        user = self.model(username=username, is_admin=is_admin)
        user.set_password(password)
        user.full_clean(exclude=["password"])
        user.save()
        return user

    def create_superuser(self, username: str, password: str | None = None) -> User:
        return self.create_user(username, password, is_admin=True)


class User(AbstractBaseUser):
    username = models.CharField(max_length=64, unique=True, validators=[USERNAME])
    email = models.EmailField(blank=True)
    is_admin = models.BooleanField(default=False)
    # Of an admin: a rule of sign-in has made them one, and when that ends they are an auditor again.
    is_auditor = models.BooleanField(default=False, db_default=False)
    # Of a service account, which has no password: the user who answers for it.
    owner = models.CharField(max_length=64, blank=True, default="", db_default="")
    is_active = models.BooleanField(default=True)
    has_github_pat = models.BooleanField(default=False)  # v1 showed no more than that; the token itself is not kept
    extension = models.JSONField(default=dict, blank=True)  # whatever clients store with a user; no rule depends on it
    # Bytes that the user's files may take; -1: no limit; null: base.files.quota.use decides.
    store_quota = models.BigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    epoch = models.PositiveIntegerField(default=0)  # raising it ends all sessions and signed tokens

    scopes: frozenset[str] | None = None  # of the token by which they came (base/accounts/scopes.py); None: all

    objects: ClassVar[UserManager] = UserManager()
    USERNAME_FIELD = "username"

    @property
    def role(self) -> Role:
        return Role.ADMIN if self.is_admin else Role.AUDITOR if self.is_auditor else Role.USER

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """What a session must hold to be valid. It changes with each password, and with each epoch."""
        known: str = super()._get_session_auth_hash(secret)  # type: ignore[misc]
        return salted_hmac("longshore.epoch", f"{known}{self.epoch}").hexdigest() if self.epoch else known


class FormerUser(models.Model):
    """An account that was deleted. Files in its name stay closed to others."""

    username = models.CharField(max_length=64, primary_key=True)


class Identity(models.Model):
    """Whom a provider of sign-in knows, and the user that they are here. A name alone is never proof of that."""

    user = models.ForeignKey(User, models.CASCADE, related_name="identities")
    provider = models.CharField(max_length=32)  # its name in LONGSHORE_SIGN_IN
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    groups = models.JSONField(default=list)  # as it said at the last sign-in
    vcs = models.JSONField(default=list)  # those that rules gave for it; what an admin gave is not among them
    role = models.CharField(max_length=20, blank=True, default="")  # the role that rules gave; empty: none
    email = models.CharField(max_length=254, blank=True, default="", db_default="")  # if it said that it is verified
    created_at = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_user_per_identity")]


class SignInRule(models.Model):
    """What somebody may do here whom a provider has let in (clusters/users/entry_rules.py)."""

    place = models.PositiveIntegerField(db_index=True)  # rules are read in this order
    provider = models.CharField(max_length=32, blank=True)  # empty: any
    group = models.CharField(max_length=255, blank=True)  # empty: everybody
    lets_in = models.BooleanField(default=True)
    role = models.CharField(max_length=20, blank=True, default="")  # empty: user
    vcs = models.JSONField(default=list)
    priority = models.PositiveSmallIntegerField(null=True)  # in these; null: as all users of each


class ApiToken(models.Model):
    """A bearer token: clients have a JWT, the row has only the hash of its id. A token whose row is gone or revoked, or
    whose parent's is, is not valid."""

    # Of a delegation token: the one with which it was asked for. Null: it was asked for in a session.
    parent = models.ForeignKey("self", models.CASCADE, null=True, related_name="children")
    user = models.ForeignKey(User, models.CASCADE, related_name="tokens")
    id_hash = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=100, blank=True)  # empty: made for a client that signed in
    client = models.CharField(max_length=160, blank=True, default="", db_default="")  # that one, and from where it came
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    used_from = models.GenericIPAddressField(null=True)  # at that time
    scopes = models.CharField(max_length=200, blank=True, default="", db_default="")  # apart by spaces; empty: all
    revoked_at = models.DateTimeField(null=True)

    @staticmethod
    def hash_id(token_id: str) -> str:
        return hashlib.sha256(token_id.encode()).hexdigest()


class Ticket(models.Model):
    """Opens one address once (base/accounts/callers.py)."""

    id_hash = models.CharField(max_length=64, unique=True)
    path = models.CharField(max_length=1000)
    credential = models.CharField(max_length=100)  # of whom it stands for, see base/accounts/callers.py
    expires_at = models.DateTimeField(db_index=True)


class Terminal(models.Model):
    """A shell that somebody has open in a container (jobs/terminal). The row goes with the shell."""

    username = models.CharField(max_length=64, db_index=True)  # who opened it
    token = models.CharField(max_length=32, unique=True)  # by which its window finds it again
    credential = models.CharField(max_length=64)  # hash of the session or token that opened it
    task = models.BigIntegerField()  # id of the row in jobs
    where = models.CharField(max_length=600)  # alice/train worker-0
    node = models.CharField(max_length=63)
    container = models.CharField(max_length=200)
    pid = models.PositiveIntegerField(null=True)  # in the container; null while it starts
    owner = models.CharField(max_length=64)  # the web process that has it
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField()  # when that process last said so


class UserKey(models.Model):
    """A public key of a user, which is put into every container of their jobs."""

    user = models.ForeignKey(User, models.CASCADE, related_name="keys")
    name = models.CharField(max_length=100)  # the key's comment
    text = models.TextField()  # one line, as in authorized_keys
    fingerprint = models.CharField(max_length=64)  # SHA256:...
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "fingerprint"], name="one_key_per_user")]


class AuditEvent(models.Model):
    """Append-only: who did what to which object, from where. What became of a job or node is in jobs.Event.
    portal.audit shows the rows in order of their ids, and every filter has an index that ends with it."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=64)
    action = models.CharField(max_length=40)
    object = models.CharField(max_length=200, blank=True)
    ip = models.GenericIPAddressField(null=True)
    way = models.CharField(max_length=200, blank=True, default="", db_default="")  # page, API, token ci ...
    data = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(fields=["actor", "id"], name="audit_by_actor"),
            models.Index(fields=["action", "id"], name="audit_by_action"),
            models.Index(fields=["object", "id"], name="audit_by_object"),
        ]


class LeaseRow(models.Model):
    """Which process holds a lease (base/wakes/lease.py)."""

    name = models.CharField(max_length=20, primary_key=True)
    epoch = models.PositiveBigIntegerField(default=0)  # how often it has changed hands
    beats = models.PositiveBigIntegerField(default=0)  # how often its holder has renewed it
    holder = models.CharField(max_length=200, blank=True)  # empty: given back


class Heartbeat(models.Model):
    """When a process of the portal was last seen alive."""

    name = models.CharField(max_length=20, primary_key=True)
    at = models.DateTimeField()
    report = models.JSONField(default=dict)  # what the process reports about its parts, see portal/health.py


class LocalFolder(models.Model):
    """A folder of this host that was made to be the file store, and the id in its marker
    (base/files/store/marker.py)."""

    path = models.TextField(unique=True)
    marker = models.CharField(max_length=32)


class Host(models.Model):
    """A host that runs processes of this portal (base/hosts/this_host.py), where there may be several."""

    id = models.CharField(max_length=32, primary_key=True)
    name = models.CharField(max_length=255)
    url = models.TextField(blank=True)
    at = models.DateTimeField()  # when it was last alive, by the clock of the database
    skew = models.FloatField(null=True)  # seconds by which its clock is ahead of the database's
    report = models.JSONField(default=dict)  # what must be the same on all hosts


class Process(models.Model):
    """A process of this portal on any host, while it lives (base/wakes/processes.py)."""

    id = models.CharField(max_length=200, primary_key=True)  # its name among all hosts, as LeaseRow.holder has it
    host = models.CharField(max_length=32)  # the id of its host, also where that has no row in Host
    host_name = models.CharField(max_length=255)
    name = models.CharField(max_length=20)  # scheduler, web ...
    pid = models.PositiveIntegerField()
    release = models.CharField(max_length=40)
    since = models.DateTimeField()
    at = models.DateTimeField()  # when it was last alive, by the clock of the database
    report = models.JSONField(default=dict)  # "free", "total": bytes of LONGSHORE_HOME's disk; "bind"


class Shared(models.Model):
    """What all hosts of a portal have in common: a fingerprint of their keys, and sealed files (base/hosts)."""

    name = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
