"""What Events say to whoever reads them. Where a job was evicted for another one, the row of each knows the other by
its id, and the sentence names it to those who may read its details. Rows of earlier releases have names in their
sentences: these are taken out."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings

from base.accounts.viewer import Viewer, reads_all
from jobs import access
from jobs.models import Event, Job
from jobs.planning.exits import OTHER, nameless

# Where the data of such a row has the other's id. Ids go by submission, whose order the list shows to everybody: so an
# id names the job, and whoever may not read its details does not get it.
_OTHER_JOB = {"job.evicted": "owner", "job.reclaimed": "victim"}


def as_read(events: Iterable[Event], viewer: Viewer) -> list[Event]:
    """The rows, not to be saved, with the sentences that this viewer may read. At most one query."""
    rows = list(events)
    ids = {id for event in rows if (id := event.data.get(_OTHER_JOB.get(event.kind, "")))}
    others = {job.pk: job for job in Job.objects.filter(pk__in=ids).only("username", "name")} if ids else {}
    is_open = settings.JOB_PRIVACY == "open"
    for event in rows:
        if not is_open:
            event.reason = nameless(event.reason, lambda user: access.may_read_details(viewer, user))
        key = _OTHER_JOB.get(event.kind, "")
        other = others.get(event.data.get(key))
        if other is None or not access.may_read_details(viewer, other.username):
            event.data = {name: value for name, value in event.data.items() if name != key}
        else:
            event.reason = event.reason.replace(OTHER.capitalize(), str(other), 1).replace(OTHER, str(other), 1)
        if event.kind == "container.stranger" and (is_open or reads_all(viewer)) and "container" in event.data:
            event.reason += f" Its name is {event.data['container']}."
    return rows
