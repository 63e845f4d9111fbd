"""Decides whether a user may submit a job: what its config alone does not show."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings

from base.accounts.viewer import require_change
from base.core.bulk import one_row
from base.core.errors import ConflictJob, Forbidden, Mend, NoVirtualCluster, Problem
from base.models import User
from clusters.engines.image_names import is_snapshot
from clusters.models import VirtualCluster
from clusters.nodes import snapshots
from clusters.placement.shares import USUAL_GRACE
from clusters.vcs.grants import may_use, most_priority
from clusters.vcs.rules import DEFAULT_VC, MOST_GRACE
from jobs import dependencies, queries
from jobs.config import jsonc
from jobs.config.spec import JobSpec
from jobs.dependencies import BadDependency
from jobs.models import Job, NoticeChannel
from jobs.notices.kinds import OF_JOBS

PAI = VirtualCluster.Profile.PAI

# Every submission asks these, and their SQL takes Django longer to put together than the database to answer. The
# conditions are those of the indices of jobs/models/job.py.
_LIVE_TASKS = f"""
    SELECT COALESCE(SUM(total_tasks), 0) FROM jobs_job
    WHERE username = %s AND state IN {queries.LIVE} AND deleted_at IS NULL
"""  # noqa: S608 - our own states
_IS_TAKEN = """
    SELECT EXISTS (SELECT 1 FROM jobs_job WHERE username = %s AND name = %s AND deleted_at IS NULL)
    OR (%s AND EXISTS (SELECT 1 FROM jobs_job WHERE name = %s AND is_legacy AND deleted_at IS NULL))
"""


def require_may_submit(
    user: User, spec: JobSpec, username: str | None = None, legacy: bool = False, *, instead_of: Job | None = None
) -> None:
    """Check what the config alone does not show: that the name is free and the user may submit to the virtual cluster.
    Raises ConflictJob, NoVirtualCluster, Forbidden, NotGiven, BadDependency."""
    require_free_name(username or user.username, spec.job_name, legacy)
    require_rights(user, spec, instead_of=instead_of)
    if username is not None and username != user.username:
        raise Forbidden(f"User {user.username} is not allowed to submit a job for {username}.")
    dependencies.find(user.username, spec)


def require_rights(user: User, spec: JobSpec, *, instead_of: Job | None = None) -> None:
    """Check that the user may have what the job asks for; the priority of the job that it comes ``instead_of`` counts,
    and not that of its config. Raises NoVirtualCluster, Forbidden, NotGiven."""
    require_change(user)
    vc = spec.effective_virtual_cluster
    if vc != DEFAULT_VC:
        _require_grant(user, vc)
    if is_snapshot(spec.image) and not snapshots.may_start(user, spec.image):
        says = f"Image {spec.image} is not kept for you. Open a failed task again from the page of its job."
        raise NotGiven("/image", says)
    if spec.wants_rdma and not VirtualCluster.objects.filter(name=vc, rdma=True).exists():
        raise NotGiven(
            "/jobEnvs/paiAzRDMA",
            f"paiAzRDMA asks for InfiniBand, which jobs of virtual cluster {vc} may not have."
            " An admin can give it to another virtual cluster than default: its rdma must be true.",
        )
    if spec.asked.profile == PAI and not VirtualCluster.objects.filter(name=vc, profile=PAI).exists():
        raise NotGiven(
            "/extras/profile",
            f"The profile pai asks for rights to mount file systems, which jobs of virtual cluster {vc} may not have."
            " An admin can give it to another virtual cluster than default, on the page of virtual clusters.",
        )
    _require_grace(vc, spec)
    _require_channels(user, spec.asked.notify or ())
    if instead_of is None:
        require_priority(user, vc, spec.asked.priority)


def require_priority(user: User, vc: str, priority: int) -> None:
    """Raises NotGiven where the user may not set the priority of a job in this virtual cluster so far up."""
    if priority > 0 and priority > (most := most_priority(user.username, vc, is_admin=user.is_admin)):
        says = (
            f"In virtual cluster {vc} you may set a priority of {most} at most."
            " An admin can allow more, or raise that of a job while it waits."
        )
        raise NotGiven("/extras/priority", says, Mend(f"Set to {most}", "set", "/extras/priority", most))


def _require_grace(vc: str, spec: JobSpec) -> None:
    asked, has_seconds = spec.asked.grace, spec.asked.grace_seconds is not None
    if not asked:
        return
    known = VirtualCluster.objects.filter(name=vc).values_list("grace", flat=True).first()
    if asked > (most := USUAL_GRACE if known is None else known):
        path = "/extras/graceSeconds" if has_seconds else "/extras/notice"
        says = (
            f"Jobs of virtual cluster {vc} have {most} seconds of grace at most, and this one asks for {asked}."
            f" An admin can allow more, up to {MOST_GRACE}."
        )
        raise NotGiven(path, says, Mend(f"Set to {most}", "set", path, most) if has_seconds else None)


def _require_channels(user: User, notify: Sequence[str]) -> None:
    """A misspelt kind would be told to nobody."""
    names = [name for name in notify if name not in OF_JOBS]
    known = set(NoticeChannel.objects.filter(user=user, name__in=names).values_list("name", flat=True)) if names else ()
    for name in names:
        if name not in known:
            raise NotGiven(
                "/extras/notify",
                f"notify names {jsonc.shown(name)}, which is neither a kind of notice ({', '.join(OF_JOBS)})"
                " nor a channel of yours. Channels are on the page of your account.",
            )


def require_few_tasks(user: User, more: int, *, written: int = 0) -> None:
    """Raises Forbidden where the user's jobs that wait or run would have more tasks than a user may. Ask before
    anything is written, and again with what is ``written`` once the user's row is locked: who submits at the same
    moment waits for it, and then counts these tasks too."""
    have = one_row(_LIVE_TASKS, user.username)[0] - written
    if have + more > settings.USER_TASKS:
        raise Forbidden(
            f"Your jobs that wait or run have {have:,} tasks; with {more:,} more they would be above"
            f" {settings.USER_TASKS:,}, which is the most. Wait for some to end, or stop some."
        )


def asks(spec: JobSpec) -> tuple[object, ...]:
    """What ``require_rights`` looks at: specs that are alike in it have one answer."""
    image, asked = spec.image if is_snapshot(spec.image) else "", spec.asked
    its_own = asked.profile, asked.priority, asked.grace, asked.notify
    return spec.effective_virtual_cluster, image, spec.wants_rdma, *its_own


def require_free_name(username: str, name: str, legacy: bool = False) -> None:
    """Raises ConflictJob when the user has a job of this name. A legacy job is addressed by its name alone, so no two
    of them share one, whoever their owners are (v1 contract, 1.1)."""
    if one_row(_IS_TAKEN, username, name, legacy, name)[0]:
        raise ConflictJob(f"Job name {name} already exists", name)


def refusal(user: User, text: str, spec: JobSpec) -> Problem | None:
    """Why ``require_may_submit`` refuses it, and where that stands in ``text``; None when it does not."""
    mend = None
    try:
        require_may_submit(user, spec)
        return None
    except NotGiven as error:
        path, message, mend = error.path, error.message, error.mend
    except BadDependency as error:
        path, message = error.path, error.message
    except (NoVirtualCluster, Forbidden) as error:
        path, message = "/virtualCluster", error.message
    except ConflictJob as error:
        free = queries.free_name(user.username, spec.job_name)
        path, message, mend = "/jobName", error.message, Mend(f'Rename to "{free}"', "set", "/jobName", free)
    return jsonc.parse(text).problem(path, message, mend)


class NotGiven(Forbidden):
    """The job asks for what its user, or its virtual cluster, has not been given. ``path`` is where."""

    def __init__(self, path: str, message: str, mend: Mend | None = None) -> None:
        super().__init__(message)
        self.path, self.mend = path, mend


def _require_grant(user: User, vc: str) -> None:
    if not VirtualCluster.objects.filter(name=vc).exists():
        raise NoVirtualCluster(f"Virtual cluster {vc} is not found.")
    if not may_use(user.username, vc, is_admin=user.is_admin):
        raise Forbidden(f"User {user.username} is not allowed to do operation in {vc}")
