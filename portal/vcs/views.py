"""The page of virtual clusters: read by whoever reads jobs, changed by admins and, in part, by their managers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from base.accounts.viewer import require
from base.core import words
from base.core.errors import BadRequest, Forbidden, LongshoreError
from base.roles import Permission
from clusters.users import services as users  # two of that name
from clusters.vcs import rules, services
from portal.shared.confirm import ask_to_confirm, question, return_url
from portal.shared.guard import own_form, own_post, reader
from portal.shared.viewer import admin_of, user_of, viewer_of
from portal.vcs.page import VcForm, VcLine, checked_form, default_says, one_line, panel, vc_lines, vcs_page
from portal.vcs.settings_form import SettingsForm


@never_cache
@reader
@require_http_methods(["GET", "HEAD", "POST"])
def vcs(request: HttpRequest, name: str = "") -> HttpResponseBase:
    """Show all of them, or with one of them open. POST adds one, or resizes the open one. Fields: name (of a new one),
    capacity, maximum, action (check: only say what it would do)."""
    page = vcs_page(viewer_of(request))
    line = one_line(page["lines"], name) if name else None
    form = None
    if request.method == "POST":
        admin_of(request)
        if line:
            _require_changeable(name)
        typed: dict[str, Any] = {
            field: request.POST.get(field, "").strip() for field in ("name", "capacity", "maximum")
        }
        form = checked_form(VcForm(**{**typed, "name": name or typed["name"]}), page["lines"], is_new=line is None)
        if not _only_check(request) and not form.errors:
            form = _save(request, form)
            if not form.errors:
                return redirect("/vcs" if line else f"/vcs/{form.name}")
    number = words.whole(request.GET.get("page", "")) or 1
    below = panel(line, page, viewer_of(request), form, number=number) if line else {"add": form or VcForm()}
    context = {**page, **below}
    # 200 for a check, also of a form with errors: nothing was refused, and htmx would not show a refusal.
    status = 400 if form and form.errors and not _only_check(request) else 200
    return render(request, "vcs/vcs.html", context, status=status)


@own_form
def vc_settings(request: HttpRequest, name: str) -> HttpResponseBase:
    """Fields of the POST: gpu_guarantee, gpu_ceiling, user_gpus, user_jobs, user_priority, share_half_life, grace,
    min_run, notebook_minutes, store_quota (empty: none), profile, rdma, log_days, log_gigabytes, node (many), and was,
    from which they must differ. Of ``default`` only what is of users and logs counts, of a manager less."""
    user = require(viewer_of(request), Permission.SET_VC, vc=name)
    page = vcs_page(viewer_of(request))
    line = one_line(page["lines"], name)
    if request.method != "POST":
        return redirect(f"{line.url}#settings")
    form = SettingsForm.typed(request.POST)
    if not form.errors:
        try:
            of_user = services.OF_DEFAULT if user.is_admin else services.OF_MANAGERS
            only = of_user if line.is_default or not user.is_admin else ()
            if settings := form.settings(only):
                services.change_settings(user, name, settings)
        except LongshoreError as error:
            form = form.refused(error.message)
        else:
            messages.success(request, f"The settings of {name} were saved.")
            return redirect(line.url)
    context = {**page, **panel(line, page, viewer_of(request), settings=form)}
    return render(request, "vcs/vcs.html", context, status=400)


@own_form
def vc_status(request: HttpRequest, name: str) -> HttpResponseBase:
    """Stop or activate, whichever it is not. Field of the POST: to (stopped, running)."""
    user = require(viewer_of(request), Permission.SET_VC, vc=name)
    _require_changeable(name)
    if request.method == "POST":
        to = request.POST.get("to", "")
        services.set_vc_status(user, name, to)
        done = "stopped: nothing new starts in it" if to == "stopped" else "active: its waiting jobs may start"
        messages.success(request, f"{name} is {done}.")
        return redirect(return_url(request, "/vcs"))
    line = one_line(vc_lines(0), name)
    return ask_to_confirm(
        request, "/vcs", nav="vcs", **(_activate_question(line) if line.is_stopped else _stop_question(line))
    )


@own_post
def vc_grant(request: HttpRequest, name: str) -> HttpResponseBase:
    """Fields: username, action (give, end), priority (empty: as all its users), manages."""
    user, username = user_of(request), request.POST.get("username", "").strip()
    back = redirect(f"{one_line(vc_lines(0), name).url}#users")
    try:
        if request.POST.get("action") == "end":
            users.withdraw(user, name, username)
            messages.success(request, f"{username} can no longer submit to {name}. Jobs that are there go on.")
            return back
        text = request.POST.get("priority", "").strip()
        if (priority := words.whole(text)) is None and text:
            raise BadRequest(f"Highest priority: give a whole number from 0 to {rules.MOST_PRIORITY}, or nothing.")
        manages = bool(request.POST.get("manages")) if user.is_admin else None
        users.grant(user, name, username, priority, manages=manages)
    except LongshoreError as error:
        if error.status == 403:
            raise
        messages.error(request, error.message)
        return back
    messages.success(request, f"{username} {'manages' if manages else 'may use'} {name}.")
    return back


@own_form
def delete_vc(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = admin_of(request)
    _require_changeable(name)
    if request.method == "POST":
        services.delete_vc(admin, name)
        messages.success(request, f"The virtual cluster {name} was deleted.")
        return redirect("/vcs")
    return ask_to_confirm(request, "/vcs", nav="vcs", **_delete_question(vc_lines(0), name))


def _stop_question(line: VcLine) -> dict[str, Any]:
    jobs = line.view.jobs
    goes_on = f"{words.count(jobs.running, 'running job goes', 'running jobs go')} on" if jobs.running else ""
    waits = f"{words.count(jobs.waiting, 'waiting job stays', 'waiting jobs stay')} queued" if jobs.waiting else ""
    said = " and ".join(filter(None, (goes_on, waits)))
    effect = f"Nothing new starts in it until it is active again. {said}{'.' if said else 'It has no jobs now.'}"
    return question(f"Stop {line.name}?", effect, f"Stop {line.name}", "player-stop", "Keep it active", to="stopped")


def _activate_question(line: VcLine) -> dict[str, Any]:
    waiting = words.count(line.view.jobs.waiting, "waiting job", "waiting jobs")
    effect = f"Its jobs start again as soon as there is room: {waiting} now."
    title, verb = f"Activate {line.name}?", f"Activate {line.name}"
    return question(title, effect, verb, "player-play", "Keep it stopped", "btn-primary", to="running")


def _delete_question(lines: list[VcLine], name: str) -> dict[str, Any]:
    line = one_line(lines, name)
    if line.view.jobs.all:
        live = words.count(line.view.jobs.all, "job waits or runs", "jobs wait or run")
        link = format_html('<a href="/jobs?vc={}">{}</a>', line.name, live)
        effect = format_html("{} in it. It can be deleted once they have ended; stop it, so that none start.", link)
        return question(f"{line.name} is in use", effect)
    people = f" {line.people} can no longer submit to it." if line.granted else ""
    grows = default_says(lines, name, 0.0)
    says = f"{grows}{people} Ended jobs stay in the list."
    return question(f"Delete {line.name}?", says, f"Delete {line.name}", keep="Keep it")


def _only_check(request: HttpRequest) -> bool:
    return request.POST.get("action") == "check"


def _save(request: HttpRequest, form: VcForm) -> VcForm:
    """Save the form, and give it back; with an error when it was refused."""
    capacity, most = form.numbers
    try:
        _, is_new = services.create_or_resize_vc(admin_of(request), form.name, capacity, most)
    except LongshoreError as error:  # somebody else was quicker, or a rule that only the service knows
        return replace(form, errors={"capacity": error.message})
    did = "was added" if is_new else "was changed"
    messages.success(request, f"{form.name} {did}: {capacity:g} % guaranteed, {most:g} % at most.")
    return form


def _require_changeable(name: str) -> None:
    if not rules.is_changeable(name):
        raise Forbidden("default has what the other virtual clusters leave. It cannot be changed, stopped or deleted.")
