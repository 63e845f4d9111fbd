"""The rows of web pages of tasks: who may open which page beside its owner, and who has one open.

The database checks none of the references: a release that does not know these tables must be able to delete a job or
a user. Rows that point to nothing are good for nothing, as every query joins them.
"""

from __future__ import annotations

from django.db import models

from base.models import User
from jobs.models import Job


class PageShare(models.Model):
    """The owner of a job lets somebody open one page of it."""

    class Kind(models.TextChoices):
        USER = "user"
        VC = "vc"  # everybody who may submit to that virtual cluster
        LINK = "link"  # whoever has the link that ``name`` is a part of (portal/web_pages/opening.py)

    job = models.ForeignKey(Job, models.CASCADE, related_name="page_shares", db_constraint=False)
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    label = models.CharField(max_length=255)
    kind = models.CharField(max_length=4, choices=Kind.choices, default=Kind.USER)
    name = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True)  # null: until it is taken back

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "role", "index", "label", "kind", "name"], name="one_share_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.label} of {self.role}-{self.index} with {self.kind} {self.name}"


class PageVisit(models.Model):
    """A person who opens one page in one browser. It begins as a ticket, which opens the page once and within seconds;
    then it is known by the cookie that the browser got for it. The row has only hashes of both.

    It is good for as long as that by which the person was known to the portal: a session of the pages, or a token; or,
    of somebody who did not sign in, for as long as the link that they came by."""

    user = models.ForeignKey(User, models.CASCADE, related_name="page_visits", db_constraint=False, null=True)
    job = models.ForeignKey(Job, models.CASCADE, related_name="page_visits", db_constraint=False)
    role = models.CharField(max_length=255)
    index = models.PositiveIntegerField()
    label = models.CharField(max_length=255)
    session = models.CharField(max_length=64, blank=True)  # the key of the session
    token = models.BigIntegerField(null=True)  # the row of the API token, where there was no session
    link = models.BigIntegerField(null=True)  # the row of the share by link, where nobody signed in
    ticket = models.CharField(max_length=64, unique=True)
    cookie = models.CharField(max_length=64, unique=True, null=True)  # null: the ticket was not used yet
    expires_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.user_id or f'link {self.link}'} at {self.label} of {self.role}-{self.index}"
