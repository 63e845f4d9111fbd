"""The pages of users, for admins: list, add, import, edit, delete. Auditors read the list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.debug import sensitive_post_parameters

from base.core import sealed, words
from base.core.errors import BadRequest, LongshoreError
from base.models import User
from base.roles import ROLES, Role
from clusters.users import services
from clusters.users.csv_import import TEMPLATE, import_csv
from clusters.users.left import left_by
from clusters.vcs.grants import vc_names
from clusters.vcs.rules import DEFAULT_VC, MOST_PRIORITY
from portal.shared.confirm import ask_to_confirm, question
from portal.shared.guard import own_form
from portal.shared.sheets import saved
from portal.shared.viewer import admin_of, all_reader_of
from portal.users.page import Edited, UserForm, UserQuery, edited, priority_fields, user_url, users_page

MOST_BYTES = 1_000_000
_SECONDS_TO_IMPORT = 3600
_PRIORITY = "priority_"  # begins the names of fields


@own_form
@sensitive_post_parameters()
def users(request: HttpRequest) -> HttpResponseBase:
    """?template=csv is the file to fill in. POST fields: action (add, check, import) and those of each."""
    if request.method != "POST":
        reader = all_reader_of(request)
        if request.GET.get("template") == "csv":
            return saved(TEMPLATE, "users")
        return render(request, "users/users.html", users_page(UserQuery.read(request.GET.dict()), reader))
    admin = admin_of(request)
    action = request.POST.get("action")
    if action in ("check", "import"):
        return _import(request, admin, only_check=action == "check")
    return _add(request, admin)


@own_form
@sensitive_post_parameters()
def user(request: HttpRequest, username: str) -> HttpResponseBase:
    """Fields of the POST: email, password (empty keeps it), role, active, vcs (many), with_vcs, quota,
    priority_<vc> (empty: as all its users)."""
    admin = admin_of(request)
    shown = edited(username)
    if request.method != "POST":
        row = shown.row.user
        most = {vc: str(priority) for vc, priority in shown.priorities.items()}
        form = UserForm(
            username, row.email, row.role, row.owner, row.is_active, tuple(shown.row.vcs), most, shown.quota
        )
        return _edit_page(request, admin, shown, form)
    form = _typed(request, username, is_self=username == admin.username)
    try:
        _save(request, admin, shown, form)
    except LongshoreError as error:
        return _edit_page(request, admin, edited(username), form, error)
    messages.success(request, f"{username} was saved.")
    return redirect("/users" if form.role == Role.ADMIN or username != admin.username else "/account")


@own_form
def delete_user(request: HttpRequest, username: str) -> HttpResponseBase:
    admin = admin_of(request)
    if request.method == "POST":
        services.delete_user(admin, username)
        messages.success(request, f"The user {username} was deleted.")
        return redirect("/users")
    return ask_to_confirm(request, user_url(username), nav="users", **_delete_question(edited(username)))


def _add(request: HttpRequest, admin: User) -> HttpResponse:
    form = _typed(request, request.POST.get("username", "").strip(), is_self=False)
    password = request.POST.get("password", "")
    try:
        services.create_user(
            admin,
            username=form.username,
            password=password,
            role=_role(form.role),
            owner=form.owner,
            vcs=form.vcs,
            email=form.email,
        )
    except LongshoreError as error:
        return _list_page(request, admin, error.status, form=replace(form, error=error.message))
    messages.success(request, format_html('<a href="{}">{}</a> was added.', user_url(form.username), form.username))
    _tell_what_is_left(request, form.username)
    return redirect("/users")


def _tell_what_is_left(request: HttpRequest, username: str) -> None:
    if left := left_by([username]).get(username):
        messages.warning(request, left.sentence(username))


def _import(request: HttpRequest, admin: User, *, only_check: bool) -> HttpResponse:
    """Show what the file would do, and seal it into the next form; or do what such a form has sealed."""
    try:
        if only_check:
            name, text = _file(request)
        else:
            name, text = "the file", sealed.unseal(request.POST.get("sealed", ""), _purpose(admin), _SECONDS_TO_IMPORT)
        result = import_csv(admin, text, dry_run=only_check)
    except LongshoreError as error:
        return _list_page(request, admin, error.status, import_error=error.message)
    if result.written:
        messages.success(request, f"{words.count(len(result.rows), 'user was', 'users were')} added.")
        for row in result.rows:
            if row.left_sentence:
                messages.warning(request, row.left_sentence)
        return redirect("/users")
    status = 200 if only_check else 409  # it was fine when it was checked, and something changed since
    again = sealed.seal(text, _purpose(admin)) if only_check and not result.problems else ""
    return _list_page(request, admin, status, result=result, file_name=name, sealed=again)


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


def _typed(request: HttpRequest, username: str, *, is_self: bool) -> UserForm:
    """What somebody has typed. Nobody can disable themselves: the form does not offer it."""
    return UserForm(
        username=username,
        email=request.POST.get("email", "").strip(),
        role=request.POST.get("role", Role.USER),
        owner=request.POST.get("owner", "").strip(),
        active=is_self or bool(request.POST.get("active")),
        vcs=tuple(request.POST.getlist("vcs")),
        priorities={
            name.removeprefix(_PRIORITY): text.strip()
            for name, text in request.POST.items()
            if name.startswith(_PRIORITY) and isinstance(text, str)
        },
        quota=request.POST.get("quota", "").strip(),
    )


def _save(request: HttpRequest, admin: User, shown: Edited, form: UserForm) -> None:
    name = form.username
    quota, vcs = _quota(form.quota), {*form.vcs, DEFAULT_VC}
    most = {vc: _priority(text) for vc, text in form.priorities.items() if vc in vcs}
    password = request.POST.get("password", "") if name != admin.username else ""
    services.update_user(admin, name, password=password or None, role=_role(form.role), email=form.email)
    is_new = vcs != set(shown.row.vcs) or any(shown.priorities.get(vc) != each for vc, each in most.items())
    if request.POST.get("with_vcs") and form.role != Role.ADMIN and is_new:
        services.set_grants(admin, name, form.vcs, most)
    services.set_active(admin, name, form.active)
    if form.quota != shown.quota and "quota" in request.POST:
        services.set_store_quota(admin, name, quota)


def _role(text: str) -> Role:
    if text not in ROLES:
        raise BadRequest(f"There is no role {text[:40]!r}; the roles are {', '.join(ROLES)}.")
    return Role(text)


def _quota(text: str) -> int | None:
    try:
        return words.quota_in(text) if text else None
    except ValueError:
        raise BadRequest("Files: give a size such as 100g, none for no limit, or nothing.") from None


def _priority(text: str) -> int | None:
    number = words.whole(text)
    if text and (number is None or number > MOST_PRIORITY):
        raise BadRequest(f"Highest priority: give a whole number from 0 to {MOST_PRIORITY}, or nothing.")
    return number


def _delete_question(shown: Edited) -> dict[str, Any]:
    name = shown.row.user.username
    if shown.row.user.is_admin:
        return question(f"{name} is an admin", "Admins are not deleted. Take the role away first.")
    if live := shown.row.jobs.all:
        jobs = words.count(live, "job that has not ended", "jobs that have not ended")
        link = format_html('<a href="/jobs?username={}">{}</a>', quote(name), jobs)
        effect = format_html("{} has {}. Stop them first; or disable {}, then they go on.", name, link, name)
        return question(f"{name} has live jobs", effect)
    tokens = f", {words.count(shown.tokens, 'API token ends', 'API tokens end')}" if shown.tokens else ""
    jobs = words.count(shown.jobs_ended, "ended job stays", "ended jobs stay")
    says = (
        f"{name} can no longer sign in{tokens}. No job of theirs runs; {jobs} in the list, and their files stay. "
        f"Whoever gets an account named {name} later gets these jobs, with their logs, and these files."
    )
    return question(f"Delete {name}?", says, f"Delete {name}", keep="Keep the user")


def _edit_page(
    request: HttpRequest, admin: User, shown: Edited, form: UserForm, error: LongshoreError | None = None
) -> HttpResponse:
    page = {
        "nav": "users",
        "shown": shown,
        "form": replace(form, error=error.message) if error else form,
        "roles": ROLES,
        "is_self": shown.row.user.username == admin.username,
        "all_vcs": vc_names(),
        "priorities": priority_fields(shown, form),
    }
    return render(request, "users/edit.html", page, status=error.status if error else 200)


def _list_page(request: HttpRequest, admin: User, status: int, **more: object) -> HttpResponse:
    return render(request, "users/users.html", users_page(UserQuery(), admin, **more), status=status)


def _purpose(admin: User) -> str:
    return f"import of users by {admin.pk}"
