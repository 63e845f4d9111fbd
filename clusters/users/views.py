"""The pages of users, for admins: list, add, import, edit, delete."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from clusters.users import pages, services
from clusters.users.csv_import import TEMPLATE, ImportResult
from clusters.users.pages import Edited, UserForm, UserQuery, user_url
from clusters.users.queries import vc_names
from clusters.vcs.rules import DEFAULT
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import signed_in
from portal.core import sealed, words
from portal.core.errors import BadRequest, LongshoreError
from portal.models import User
from portal.web.confirm import ask

MOST_BYTES = 1_000_000
_SECONDS_TO_IMPORT = 3600


@never_cache
@signed_in
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def users(request: HttpRequest) -> HttpResponseBase:
    """?template=csv is the file to fill in. POST fields: action (add, check, import) and those of each."""
    admin = require_admin(request)
    if request.method != "POST":
        if request.GET.get("template") == "csv":
            return _template()
        return render(request, "clusters/users.html", pages.page(UserQuery.read(request.GET.dict()), admin))
    action = request.POST.get("action")
    if action == "check":
        return _check_import(request, admin)
    return _import(request, admin) if action == "import" else _add(request, admin)


@never_cache
@signed_in
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def user(request: HttpRequest, username: str) -> HttpResponseBase:
    """Fields of the POST: email, password (empty keeps it), admin, active, vcs (many), with_vcs, quota."""
    admin = require_admin(request)
    shown = pages.edited(username)
    if request.method != "POST":
        row = shown.row
        form = UserForm(username, row.email, row.is_admin, row.is_active, row.vcs, shown.quota)
        return _edit_page(request, admin, shown, form)
    form = _typed(request, username, is_self=username == admin.username)
    try:
        _save(request, admin, shown, form)
    except LongshoreError as error:
        return _edit_page(request, admin, pages.edited(username), form, error)
    messages.success(request, f"{username} was saved.")
    return redirect("/users" if form.admin or username != admin.username else "/account")


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, username: str) -> HttpResponseBase:
    admin = require_admin(request)
    if request.method == "POST":
        services.delete_user(admin, username, ip=ip_of(request))
        messages.success(request, f"The user {username} was deleted.")
        return redirect("/users")
    return ask(request, user_url(username), nav="users", **_delete_question(pages.edited(username)))


def _add(request: HttpRequest, admin: User) -> HttpResponse:
    form = _typed(request, request.POST.get("username", "").strip(), is_self=False)
    password = request.POST.get("password", "")
    try:
        services.create_user(
            admin,
            username=form.username,
            password=password,
            admin=form.admin,
            vcs=form.vcs,
            email=form.email,
            ip=ip_of(request),
        )
    except LongshoreError as error:
        return _list_page(request, admin, error.status, form=_with_error(form, error.message))
    messages.success(request, format_html('<a href="{}">{}</a> was added.', user_url(form.username), form.username))
    return redirect("/users")


def _check_import(request: HttpRequest, admin: User) -> HttpResponse:
    try:
        name, text = _file(request)
        result = services.import_csv(admin, text, dry_run=True, ip=ip_of(request))
    except LongshoreError as error:
        return _list_page(request, admin, error.status, import_error=error.message)
    kept = "" if result.problems else sealed.seal(text, _purpose(admin))
    return _list_page(request, admin, 200, result=result, file_name=name, sealed=kept)


def _import(request: HttpRequest, admin: User) -> HttpResponse:
    try:
        text = sealed.unseal(request.POST.get("sealed", ""), _purpose(admin), _SECONDS_TO_IMPORT)
        result: ImportResult = services.import_csv(admin, text, dry_run=False, ip=ip_of(request))
    except LongshoreError as error:
        return _list_page(request, admin, error.status, import_error=error.message)
    if not result.written:  # it was fine when it was checked, and something changed since
        return _list_page(request, admin, 409, result=result, file_name="the file", sealed="")
    messages.success(request, f"{words.count(len(result.rows), 'user was', 'users were')} added.")
    return redirect("/users")


def _file(request: HttpRequest) -> tuple[str, str]:
    """Name and text of what was uploaded."""
    file = request.FILES.get("file")
    if file is None:
        raise BadRequest("Choose a CSV file first.")
    if file.size is None or file.size > MOST_BYTES:
        raise BadRequest("The file is larger than 1 MB.")
    try:
        return str(file.name), file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest("The file is not text in UTF-8. Save it as CSV, UTF-8.") from None


def _template() -> HttpResponse:
    answer = HttpResponse(TEMPLATE, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="users.csv"'
    return answer


def _typed(request: HttpRequest, username: str, *, is_self: bool) -> UserForm:
    """What somebody has typed. Nobody can disable themselves: the form does not offer it."""
    return UserForm(
        username=username,
        email=request.POST.get("email", "").strip(),
        admin=bool(request.POST.get("admin")),
        active=is_self or bool(request.POST.get("active")),
        vcs=tuple(request.POST.getlist("vcs")),
        quota=request.POST.get("quota", "").strip(),
    )


def _save(request: HttpRequest, admin: User, shown: Edited, form: UserForm) -> None:
    name, ip = form.username, ip_of(request)
    quota = _quota(form.quota)
    password = request.POST.get("password", "") if name != admin.username else ""
    services.update_user(admin, name, password=password or None, admin=form.admin, email=form.email, ip=ip)
    if request.POST.get("with_vcs") and not form.admin and {*form.vcs, DEFAULT} != set(shown.row.vcs):
        services.set_grants(admin, name, form.vcs, ip=ip)
    services.set_active(admin, name, form.active, ip=ip)
    if form.quota != shown.quota and "quota" in request.POST:
        services.set_store_quota(admin, name, quota, ip=ip)


def _quota(text: str) -> int | None:
    try:
        return words.quota_in(text) if text else None
    except ValueError:
        raise BadRequest("Files: give a size such as 100g, none for no limit, or nothing.") from None


def _delete_question(shown: Edited) -> dict[str, object]:
    name = shown.row.username
    no = {"keep": "Back", "sure": False}
    if shown.row.is_admin:
        return {**no, "title": f"{name} is an admin", "effect": "Admins are not deleted. Take the role away first."}
    if shown.jobs_live:
        jobs = words.count(shown.jobs_live, "job that has not ended", "jobs that have not ended")
        link = format_html('<a href="/jobs?username={}">{}</a>', quote(name), jobs)
        effect = format_html("{} has {}. Stop them first; or disable {}, then they go on.", name, link, name)
        return {**no, "title": f"{name} has live jobs", "effect": effect}
    tokens = f", {words.count(shown.tokens, 'API token ends', 'API tokens end')}" if shown.tokens else ""
    jobs = words.count(shown.jobs_ended, "ended job stays", "ended jobs stay")
    return {
        "title": f"Delete {name}?",
        "effect": f"{name} can no longer sign in{tokens}. No job of theirs runs; {jobs} in the list.",
        "verb": f"Delete {name}",
        "verb_icon": "trash",
        "keep": "Keep the user",
    }


def _edit_page(
    request: HttpRequest, admin: User, shown: Edited, form: UserForm, error: LongshoreError | None = None
) -> HttpResponse:
    page = {
        "nav": "users",
        "shown": shown,
        "form": _with_error(form, error.message) if error else form,
        "is_self": shown.row.username == admin.username,
        "all_vcs": vc_names(),
    }
    return render(request, "clusters/users_edit.html", page, status=error.status if error else 200)


def _list_page(request: HttpRequest, admin: User, status: int, **more: object) -> HttpResponse:
    return render(request, "clusters/users.html", pages.page(UserQuery(), admin, **more), status=status)


def _with_error(form: UserForm, error: str) -> UserForm:
    return replace(form, error=error)


def _purpose(admin: User) -> str:
    return f"import of users by {admin.pk}"
