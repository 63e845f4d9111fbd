"""Decides whether a user may submit a job: what its config alone does not show."""

from __future__ import annotations

from clusters.engines.image_names import is_kept
from clusters.models import VcGrant, VirtualCluster
from clusters.nodes import kept
from clusters.vcs.rules import DEFAULT
from jobs import dependencies, queries
from jobs.config import jsonc
from jobs.config.spec import JobSpec
from jobs.dependencies import BadDependency
from portal.core.errors import ConflictJob, Forbidden, Mend, NoVirtualCluster, Problem
from portal.models import User

PAI = VirtualCluster.Profile.PAI


def require_may_submit(user: User, spec: JobSpec, username: str | None = None, legacy: bool = False) -> None:
    """Check what the config alone does not show: that the name is free and the user may submit to the virtual cluster.
    Raises ConflictJob, NoVirtualCluster, Forbidden, NoRdma, NoProfile,
    BadDependency."""
    require_free_name(username or user.username, spec.job_name, legacy)
    require_rights(user, spec)
    if username is not None and username != user.username:
        raise Forbidden(f"User {user.username} is not allowed to submit a job for {username}.")
    dependencies.find(user.username, spec)


def require_rights(user: User, spec: JobSpec) -> None:
    """Check that the user may have what the job asks for. Raises NoVirtualCluster, Forbidden, NotKept, NoRdma,
    NoProfile."""
    vc = spec.effective_virtual_cluster
    if vc != DEFAULT:
        _require_grant(user, vc)
    if is_kept(spec.image) and not kept.may_start(user, spec.image):
        raise NotKept(spec.image)
    if spec.wants_rdma and not VirtualCluster.objects.filter(name=vc, rdma=True).exists():
        raise NoRdma(vc)
    if spec.asked.profile == PAI and not VirtualCluster.objects.filter(name=vc, profile=PAI).exists():
        raise NoProfile(vc)


def asks(spec: JobSpec) -> tuple[str, str, bool, str | None]:
    """What ``require_rights`` looks at: specs that are alike in it have one answer."""
    image = spec.image if is_kept(spec.image) else ""
    return spec.effective_virtual_cluster, image, spec.wants_rdma, spec.asked.profile


def require_free_name(username: str, name: str, legacy: bool = False) -> None:
    """Raises ConflictJob when the user has a job of this name. A legacy job is addressed by its name alone, so no two
    of them share one, whoever their owners are (v1 contract, 1.1)."""
    jobs = queries.visible_jobs().filter(name=name)
    if jobs.filter(username=username).exists() or (legacy and jobs.filter(is_legacy=True).exists()):
        raise ConflictJob(f"Job name {name} already exists")


def refusal(user: User, text: str, spec: JobSpec) -> Problem | None:
    """Why ``require_may_submit`` refuses it, and where that stands in ``text``; None when it does not."""
    try:
        require_may_submit(user, spec)
    except (NoRdma, NoProfile, NotKept, BadDependency) as error:
        return _problem_at(text, error.path, error.message)
    except (NoVirtualCluster, Forbidden) as error:
        return _problem_at(text, "/virtualCluster", error.message)
    except ConflictJob as error:
        free = queries.free_name(user.username, spec.job_name)
        mend = Mend(f'Rename to "{free}"', "set", "/jobName", free)
        return _problem_at(text, "/jobName", error.message, mend)
    return None


class NotKept(Forbidden):
    """The image was made of a failed container of somebody else, or is not kept any more."""

    path = "/image"

    def __init__(self, image: str) -> None:
        super().__init__(f"Image {image} is not kept for you. Open a failed task again from the page of its job.")


class NoRdma(Forbidden):
    """The job asks for InfiniBand, and its virtual cluster has not been given it."""

    path = "/jobEnvs/paiAzRDMA"

    def __init__(self, vc: str) -> None:
        super().__init__(
            f"paiAzRDMA asks for InfiniBand, which jobs of virtual cluster {vc} may not have."
            " An admin can give it to another virtual cluster than default: its rdma must be true."
        )


class NoProfile(Forbidden):
    """The job asks for the profile ``pai``, and its virtual cluster has not been given it."""

    path = "/extras/profile"

    def __init__(self, vc: str) -> None:
        super().__init__(
            f"The profile pai asks for rights to mount file systems, which jobs of virtual cluster {vc} may not have."
            " An admin can give it to another virtual cluster than default, on the page of virtual clusters."
        )


def _problem_at(text: str, path: str, message: str, mend: Mend | None = None) -> Problem:
    document = jsonc.parse(text)
    return Problem(*document.line_column(document.offset(path)), path, message, mend)


def _require_grant(user: User, vc: str) -> None:
    if not VirtualCluster.objects.filter(name=vc).exists():
        raise NoVirtualCluster(f"Virtual cluster {vc} is not found.")
    if not user.is_admin and not VcGrant.objects.filter(vc__name=vc, username=user.username).exists():
        raise Forbidden(f"User {user.username} is not allowed to do operation in {vc}")
