"""The page of virtual clusters: read by whoever reads jobs, changed by admins."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.html import format_html
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from clusters.vcs import pages, rules
from clusters.vcs import services as vc_services
from clusters.vcs.pages import VcForm, VcLine
from clusters.vcs.settings_form import SettingsForm
from portal.accounts.audit import ip_of
from portal.accounts.auth import require_admin
from portal.accounts.guard import reader, signed_in
from portal.accounts.viewer import viewer_of
from portal.core import words
from portal.core.errors import Forbidden, LongshoreError
from portal.web.confirm import ask, back


@never_cache
@reader
@require_http_methods(["GET", "HEAD", "POST"])
def vcs(request: HttpRequest) -> HttpResponseBase:
    """POST adds one. Fields: name, capacity, maximum, action (check: only say what it would do)."""
    page = pages.page(viewer_of(request))
    if request.method != "POST":
        return render(request, "clusters/vcs.html", page)
    require_admin(request)
    form = pages.checked(_typed(request, request.POST.get("name", "").strip()), page["lines"])
    if any(line.name == form.name for line in page["lines"]):
        form = _refuse(form, "name", f"There is a virtual cluster {form.name} already.")
    if not _only_check(request) and not form.errors:
        form = _save(request, form)
        if not form.errors:
            return redirect(f"/vcs/{form.name}")
    return render(request, "clusters/vcs.html", {**page, "add": form}, status=_status_of(request, form))


@never_cache
@reader
@require_http_methods(["GET", "HEAD", "POST"])
def vc(request: HttpRequest, name: str) -> HttpResponseBase:
    """POST resizes it. Fields: capacity, maximum, action (check: only say what it would do)."""
    page = pages.page(viewer_of(request))
    line = pages.one_line(page["lines"], name)
    form = None
    if request.method == "POST":
        require_admin(request)
        _require_changeable(name)
        form = pages.checked(_typed(request, name), page["lines"])
        if not _only_check(request) and not form.errors:
            form = _save(request, form)
            if not form.errors:
                return redirect("/vcs")
    context = {**page, **pages.panel(line, viewer_of(request), form)}
    return render(request, "clusters/vcs.html", context, status=_status_of(request, form))


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def settings(request: HttpRequest, name: str) -> HttpResponseBase:
    """Fields of the POST: gpu_guarantee, gpu_ceiling, user_gpus, user_jobs, store_quota (empty: none), profile, rdma,
    log_days, log_gigabytes, node (many). Of ``default`` only what users and logs are limited to counts."""
    admin = require_admin(request)
    page = pages.page(viewer_of(request))
    line = pages.one_line(page["lines"], name)
    if request.method != "POST":
        return redirect(f"{line.url}#settings")
    form = SettingsForm.typed(request.POST)
    if not form.errors:
        try:
            vc_services.change_settings(admin, name, form.settings(of_default=line.is_default), ip=ip_of(request))
        except LongshoreError as error:
            form = form.refused(error.message)
        else:
            messages.success(request, f"The settings of {name} were saved.")
            return redirect(line.url)
    context = {**page, **pages.panel(line, viewer_of(request), settings=form)}
    return render(request, "clusters/vcs.html", context, status=400)


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def status(request: HttpRequest, name: str) -> HttpResponseBase:
    """Stop or activate, whichever it is not. Field of the POST: to (stopped, running)."""
    admin = require_admin(request)
    _require_changeable(name)
    if request.method == "POST":
        to = request.POST.get("to", "")
        vc_services.set_vc_status(admin, name, to, ip=ip_of(request))
        done = "stopped: nothing new starts in it" if to == "stopped" else "active: its waiting jobs may start"
        messages.success(request, f"{name} is {done}.")
        return redirect(back(request, "/vcs"))
    line = _line(name)
    return ask(request, "/vcs", nav="vcs", **(_activate_question(line) if line.is_stopped else _stop_question(line)))


@never_cache
@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def delete(request: HttpRequest, name: str) -> HttpResponseBase:
    admin = require_admin(request)
    _require_changeable(name)
    if request.method == "POST":
        vc_services.delete_vc(admin, name, ip=ip_of(request))
        messages.success(request, f"The virtual cluster {name} was deleted.")
        return redirect("/vcs")
    return ask(request, "/vcs", nav="vcs", **_delete_question(pages.vc_lines(0), name))


def _stop_question(line: VcLine) -> dict[str, object]:
    jobs = line.view.jobs
    goes_on = f"{words.count(jobs.running, 'running job goes', 'running jobs go')} on" if jobs.running else ""
    waits = f"{words.count(jobs.waiting, 'waiting job stays', 'waiting jobs stay')} queued" if jobs.waiting else ""
    said = " and ".join(filter(None, (goes_on, waits)))
    return {
        "title": f"Stop {line.name}?",
        "effect": f"Nothing new starts in it until it is active again. {said}{'.' if said else 'It has no jobs now.'}",
        "fields": {"to": "stopped"},
        "verb": f"Stop {line.name}",
        "verb_icon": "player-stop",
        "keep": "Keep it active",
    }


def _activate_question(line: VcLine) -> dict[str, object]:
    waiting = words.count(line.view.jobs.waiting, "waiting job", "waiting jobs")
    return {
        "title": f"Activate {line.name}?",
        "effect": f"Its jobs start again as soon as there is room: {waiting} now.",
        "fields": {"to": "running"},
        "verb": f"Activate {line.name}",
        "verb_icon": "player-play",
        "verb_class": "btn-primary",
        "keep": "Keep it stopped",
    }


def _delete_question(lines: list[VcLine], name: str) -> dict[str, object]:
    line = pages.one_line(lines, name)
    if line.view.jobs.all:
        live = words.count(line.view.jobs.all, "job waits or runs", "jobs wait or run")
        link = format_html('<a href="/jobs?vc={}">{}</a>', line.name, live)
        effect = format_html("{} in it. It can be deleted once they have ended; stop it, so that none start.", link)
        return {"title": f"{line.name} is in use", "effect": effect, "keep": "Back", "sure": False}
    people = "" if line.people == "admins only" else f" {line.people} can no longer submit to it."
    grows = pages.default_says(lines, name, 0.0)
    return {
        "title": f"Delete {line.name}?",
        "effect": f"{grows}{people} Ended jobs stay in the list.",
        "verb": f"Delete {line.name}",
        "verb_icon": "trash",
        "keep": "Keep it",
    }


def _only_check(request: HttpRequest) -> bool:
    return request.POST.get("action") == "check"


def _status_of(request: HttpRequest, form: VcForm | None) -> int:
    """200 for a check, also of a form with errors: nothing was refused, and htmx would not show a refusal."""
    return 400 if form and form.errors and not _only_check(request) else 200


def _save(request: HttpRequest, form: VcForm) -> VcForm:
    """Save the form, and give it back; with an error when it was refused."""
    capacity, most = form.numbers
    try:
        _, is_new = vc_services.create_or_resize_vc(
            require_admin(request), form.name, capacity, most, ip=ip_of(request)
        )
    except LongshoreError as error:  # somebody else was quicker, or a rule that only the service knows
        return _refuse(form, "capacity", error.message)
    did = "was added" if is_new else "was changed"
    messages.success(request, f"{form.name} {did}: {capacity:g} % guaranteed, {most:g} % at most.")
    return form


def _typed(request: HttpRequest, name: str) -> VcForm:
    return VcForm(name, request.POST.get("capacity", "").strip(), request.POST.get("maximum", "").strip())


def _refuse(form: VcForm, field: str, message: str) -> VcForm:
    return VcForm(form.name, form.capacity, form.maximum, {**form.errors, field: message})


def _line(name: str) -> VcLine:
    return pages.one_line(pages.vc_lines(0), name)


def _require_changeable(name: str) -> None:
    if not rules.is_changeable(name):
        raise Forbidden("default has what the other virtual clusters leave. It cannot be changed, stopped or deleted.")
