"""Routes about one job: GET, PUT (submit by name), DELETE, its executionType, config, release, priority, position and
ssh."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import yaml
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from base.accounts import budget
from base.accounts.scopes import Scope
from base.accounts.viewer import Viewer, may_read_jobs, require_reader
from base.core.errors import BadRequest, NoJobConfig, NoJobSshInfo
from jobs import access, admission, order, queries, services, versions
from jobs.config import jsonc
from jobs.config.spec import JobSpec
from jobs.containers import ssh
from jobs.models import Job
from portal.shared.api import etags, repeated
from portal.shared.api.bodies import read
from portal.shared.api.openapi import Message, errors
from portal.shared.api.repeated import Version
from portal.shared.api.v1 import LongJson, V1View, body
from portal.shared.jobs import serializers, shapes
from portal.shared.jobs.base import find_job, is_legacy
from portal.shared.viewer import ip_of, reader_of, user_of, viewer_of
from portal.webhdfs.call import trusted_user

_YAML = ("text/yaml", "application/x-yaml", "application/yaml")


def _detail(base_url: str, uri: str, owner: str, name: str, asked: str) -> Version:
    def etag(viewer: Viewer, text: str) -> str:
        require_reader(viewer)
        rights = access.may_read_details(viewer, owner), access.may_read_logs(viewer, owner)
        return etags.of(f"{uri} {rights}", text) if text else ""

    def make(viewer: Viewer) -> shapes.JobDetail:
        return serializers.job_answer(viewer, base_url, *queries.job_and_attempt(owner, name), asked)

    return Version(versions.of_detail(), (owner, name), etag, make)


@repeated.route(r"/(?:rest-server/)?api/v1/user/([\w.-]+)/jobs/([\w.-]+)")
def _detail_at(base_url: str, path: str, owner: str, name: str) -> Version:
    """As ``OneJob.get`` of a plain address."""
    return etags.scoped(Scope.JOBS_READ, _detail(base_url, base_url + path, owner, name, name))


class OneJob(V1View):
    renderer = LongJson

    @extend_schema(summary="One job", responses=shapes.JobDetail)
    def get(self, request: Request, job: str, username: str = "") -> HttpResponseBase:
        reader_of(request)
        # An address that names no user is looked up first: the job's version is that of its owner and name. Whose job
        # a name alone means may change while that job does not.
        is_named = bool(username) and "\x00" not in username + job
        row = None if is_named else find_job(request, username, job)
        owner, name = (row.username, row.name) if row else (username, job)
        base_url = f"{request.scheme}://{request.get_host()}"
        version = _detail(base_url, request.build_absolute_uri(), owner, name, job)
        return etags.answer(request, version, keep=is_named)

    @extend_schema(
        summary="Submit a job by its name", request=JobSpec, responses={201: shapes.JobDetail, **errors(409, 429)}
    )
    def put(self, request: Request, job: str, username: str = "") -> Response:
        legacy = is_legacy(request, username)
        if may_read_jobs(viewer_of(request)):  # v1 answers 409 before it asks for a token
            admission.require_free_name(username or viewer_of(request).username, job, legacy)
        user = user_of(request)
        row = services.submit(user, body(request), name_from_url=job, username=username or None, legacy=legacy)
        return serializers.created(request, row, quote(request.path_info, "/~"))

    @extend_schema(summary="Delete a job", responses={202: Message})
    def delete(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        services.delete(user_of(request), row)
        return Response({"message": f"deleted job {job} successfully"}, status=202)


class ExecutionType(V1View):
    @extend_schema(summary="START or STOP a job", request=shapes.JobExecutionValue, responses={202: Message})
    def put(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        asked = read(shapes.JobExecutionValue, request)
        value = asked.value
        user = user_of(request)
        access.require_write(user, row, "execute")
        if value not in Job.Execution.values:
            refused = BadRequest('child "value" fails because ["value" must be one of [START, STOP]]')
            refused.code = "UnknownError"  # in v1 not the schema refused it but the launcher (v1 contract, 3.8)
            raise refused
        if value == Job.Execution.STOP:
            services.stop(user, row, now=asked.now)
        else:
            services.start(user, row)
        return Response({"message": f"execute job {job} successfully"}, status=202)


class JobConfig(V1View):
    @extend_schema(summary="The config as it was submitted", responses={200: {"type": "object"}})
    def get(self, request: Request, job: str, username: str = "") -> HttpResponseBase:
        row = find_job(request, username, job)
        access.require_config(viewer_of(request), row)
        if not row.config:
            raise NoJobConfig(f"Config of job {job} is not found.")
        value = self.value_of(row)
        if request._request.get_preferred_type(["application/json", *_YAML]) in _YAML:
            with budget.reading(viewer_of(request).username, row.config):
                text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
            return HttpResponse(text, content_type="text/yaml; charset=utf-8")
        return Response(value)

    def value_of(self, job: Job) -> Any:
        return jsonc.parse(job.config).value


class Release(V1View):
    @extend_schema(
        summary="Let go the containers that are kept for debugging", request=None, responses={202: shapes.Released}
    )
    def put(self, request: Request, job: str, username: str = "") -> Response:
        user = user_of(request)
        answer: shapes.Released = {"released": services.release(user, find_job(request, username, job))}
        return Response(answer, status=202)


class Saved(V1View):
    @extend_schema(
        summary="Say that a running job has saved what it has done so far",
        request=None,
        responses={202: Message, **errors(401, 403, 404, 409)},
    )
    def put(self, request: Request, job: str, username: str = "") -> Response:
        user = user_of(request)
        row = find_job(request, username, job)
        services.saved(user, row)
        return Response({"message": f"job {row.name} has saved"}, status=202)


class Priority(V1View):
    @extend_schema(
        summary="Change the priority of a waiting job",
        description="An admin may set any, the owner of the job one as high as they may submit.",
        request=shapes.PriorityValue,
        responses={202: Message, **errors(409)},
    )
    def put(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        user = user_of(request)
        value = read(shapes.PriorityValue, request).value
        order.set_priority(user, row, value)
        return Response({"message": f"set priority of job {row.name} to {value} successfully"}, status=202)


class Position(V1View):
    @extend_schema(
        summary="Let a waiting job start before another one",
        description="For admins. Both jobs wait in one virtual cluster; `before` is `user~job`.",
        request=shapes.BeforeValue,
        responses={202: Message, **errors(409)},
    )
    def put(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        user = user_of(request)
        before = read(shapes.BeforeValue, request).before
        order.move_before(user, row, find_job(request, "", before))
        return Response({"message": f"moved job {row.name} before {before} successfully"}, status=202)


class JobSsh(V1View):
    """v1 contract, 3.9. The answer has the containers whose sshd answers now."""

    @extend_schema(summary="How to log in to the containers", responses=shapes.SshInfo)
    def get(self, request: Request, job: str, username: str = "") -> Response:
        row = find_job(request, username, job)
        access.require_config(viewer_of(request), row)
        answering = [login for login in ssh.logins(row, queries.current_attempt(row)) if login.answers]
        if not answering:
            raise NoJobSshInfo(f"SSH info of job {job} is not found.")
        base_url = f"{request.scheme}://{request.get_host()}"
        # A client whose mere word the gateway believes could read the key as its owner, so plain wget can too.
        signed = (
            access.may_write(viewer_of(request), row) or trusted_user(ip_of(request) or "", row.username) is not None
        )
        link = ssh.key_link(row, base_url, signed=signed)
        return Response(serializers.ssh_info(row, answering, link))
