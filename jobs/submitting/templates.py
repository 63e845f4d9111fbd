"""Templates: configs that people start from, their own and those of a virtual cluster.

A template is never given the values of secrets: HIDDEN stands in their place, as in a stored config.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from base.core import words
from base.core.errors import BadRequest, Conflict, Forbidden, NotFound, TooLarge
from base.models import User
from jobs import secrets
from jobs.config import jsonc
from jobs.config.spec import MAX_CONFIG_BYTES
from jobs.models import Template
from jobs.submitting.choices import vcs_of

MOST = 50  # of a user, their own and those they gave to virtual clusters


@dataclass(frozen=True, slots=True)
class ListedTemplate:
    """A template in the list."""

    id: int
    name: str
    vc: str
    used: int
    by: str
    may_delete: bool


def visible_to(user: User) -> list[ListedTemplate]:
    """The user's own, then those of the virtual clusters they may use; most used first."""
    rows = _visible(user).order_by("vc", "-used", "name").values_list("id", "name", "vc", "used", "user__username")
    own = user.username
    return [ListedTemplate(*row[:4], row[4] or "", user.is_admin or row[4] == own) for row in rows[:200]]


def open_one(user: User, id: int) -> Template:
    """The template, counted as used once more. Raises NotFound, also for one that the user may not see."""
    template = _find(user, id)
    Template.objects.filter(pk=id).update(used=F("used") + 1)
    return template


def save(user: User, name: str, text: str, vc: str = "") -> Template:
    """Save the text as a template of one's own or, for all who may use it, of a virtual cluster; the user's one of the
    same name is replaced. Raises BadRequest, TooLarge, Forbidden, Conflict."""
    name = " ".join(name.split())
    if sign := words.unseen(name):
        raise BadRequest(f"The name has {sign}, a sign that nobody sees: write it without.")
    if not name or len(name) > 80 or not name.isprintable():
        raise BadRequest("A template has a name of 1 to 80 characters.")
    if vc and vc not in vcs_of(user):
        raise Forbidden(f"User {user.username} is not allowed to do operation in {vc}")
    columns = {"config": _without_secrets(text), "changed_at": timezone.now()}
    try:
        with transaction.atomic():
            User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()
            mine = Template.objects.filter(user=user)
            if old := mine.filter(vc=vc, name=name).first():
                Template.objects.filter(pk=old.pk).update(**columns)
                return old
            if mine.count() >= MOST:
                raise Conflict(f"You have {MOST} templates. Delete one first.")
            return Template.objects.create(user=user, vc=vc, name=name, **columns)
    except IntegrityError:
        raise Conflict(f"Somebody else has given virtual cluster {vc} a template {name}.") from None


def delete(user: User, id: int) -> None:
    """Delete one of the user's; an admin deletes any that they see. Raises NotFound, Forbidden."""
    template = _find(user, id)
    if template.user_id != user.pk and not user.is_admin:
        raise Forbidden("A template is deleted by who saved it, or by an admin.")
    template.delete()


def _find(user: User, id: int) -> Template:
    template = _visible(user).filter(pk=id).first()
    if template is None:
        raise NotFound("This template is not there any more.")
    return template


def _visible(user: User) -> QuerySet[Template]:
    return Template.objects.filter(Q(user=user, vc="") | Q(vc__in=vcs_of(user)))


def _without_secrets(text: str) -> str:
    if len(text.encode(errors="surrogatepass")) > MAX_CONFIG_BYTES:
        raise TooLarge("The text is larger than 100 kB, so it is no job config.")
    try:
        return secrets.hidden_in(text)
    except jsonc.NotJson as error:
        raise BadRequest(f"Only JSON can be a template. {error.message}") from None
