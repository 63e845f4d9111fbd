"""The page of a folder or a file. ``?do=`` names what is done there: GET asks, POST does it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header

from base.accounts import audit
from base.core import words
from base.core.errors import BadRequest, LongshoreError, NotFound
from base.files.store import open_store
from base.files.store.base import Entry, StoreUnavailable, TreeUsage, joined, names_of
from base.files.store.state import is_store_up
from base.files.store_actor import StoreActor, address, inside, parent
from portal.files import preview, queries, services
from portal.files.tars import FolderTar, require_tar
from portal.shared.confirm import ask_to_confirm, return_url
from portal.shared.guard import own_form
from portal.shared.viewer import user_of

_TYPE_THE_NUMBER = 20  # files; deleting more wants the number typed
_INERT = {"Content-Security-Policy": "default-src 'none'; sandbox", "X-Content-Type-Options": "nosniff"}


@own_form
def files(request: HttpRequest, path: str = "") -> HttpResponseBase:
    """Show the page. A store that is known to be down is not asked, so the page comes at once; ``?now`` asks all the
    same."""
    if request.method != "POST" and "now" not in request.GET and is_store_up() is False:
        return _down(request, "")
    try:
        who = StoreActor.of(user_of(request), open_store())
        plain = joined(names_of(f"/{path}"))
        who.require_read(plain)
        return _dispatch(request, who, plain)
    except StoreUnavailable as error:
        return _down(request, error.message)


def _dispatch(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    do = request.GET.get("do", "")
    known = _POSTS if request.method == "POST" else _GETS
    if do not in known:
        raise NotFound("There is no such page.")
    return known[do](request, who, path)


# --- looking ---------------------------------------------------------------------------------------------------------


def _page(request: HttpRequest, who: StoreActor, path: str, *, error: str = "", status: int = 200) -> HttpResponseBase:
    """Context: path, folder, crumbs, list, panel, entry and preview of a file, places, quota, may_*, error."""
    entry = who.stat(path)
    is_file = entry is not None and not entry.is_dir
    folder = parent(path) if is_file else path
    query = request.GET
    wanted = queries.listing_options(*(query.get(name, "") for name in ("sort", "page", "q", "hidden")))
    page: dict[str, Any] = {
        "nav": "files",
        "path": path,
        "name": names_of(path)[-1] if names_of(path) else "Store",
        "folder": folder,
        "folder_name": names_of(folder)[-1] if names_of(folder) else "the store",
        "folder_url": address(folder),
        "up_url": address(parent(folder)) if names_of(folder) else "",
        "url": address(path),
        "crumbs": queries.crumbs(path) if names_of(path) else [],
        "list": queries.listing(who, folder, wanted, path if is_file else "", is_made=entry is not None),
        "panel": queries.panel(path),
        "entry": entry if is_file else None,
        "is_made": entry is not None,
        "places": [(says, place, address(place)) for says, place in who.places()],
        "quota": who.quota(path),
        "may_put": who.may_put(folder),
        "may_remove": who.may_remove(path) and entry is not None,
        "error": error,
    }
    if entry is not None and is_file:
        page |= {"size": words.size(entry.size), "preview": _previewed(who, entry)}
    return render(request, "files/files.html", page, status=status)


def _previewed(who: StoreActor, entry: Entry) -> preview.Preview:
    """A file that cannot be read does not break the rest of the page."""
    try:
        return preview.preview(who.store, entry)
    except LongshoreError as error:
        return preview.Preview("fault", says=error.message)


def _picture(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    kind = preview.require_picture(who.store, who.store.stat(path))
    return FileResponse(who.store.open_read(path), content_type=kind, headers=_INERT)


def _tar(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    require_tar(who, path)
    said = content_disposition_header(True, f"{names_of(path)[-1]}.tar") or "attachment"
    headers = {**_INERT, "Content-Disposition": said}
    if request.method == "HEAD":
        return HttpResponse(headers=headers, content_type="application/x-tar")
    return StreamingHttpResponse(FolderTar(who, path), headers=headers, content_type="application/x-tar")


def _down(request: HttpRequest, reason: str) -> HttpResponse:
    if request.GET.get("do") == "check":
        return JsonResponse({"message": reason}, status=503)
    page = {"nav": "files", "reason": reason, "url": request.path}
    return render(request, "files/down.html", page, status=503)


# --- putting and naming ----------------------------------------------------------------------------------------------


def _upload(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Fields: file (several), replace, end. For browsers without our script, which sends to the gateway. The last
    field is missing when the connection broke off: what was read of a file looks like all of it."""
    who.require_write(inside(path, "a"))
    try:
        if "end" not in request.POST:
            raise BadRequest("The upload broke off. Nothing of it was kept.")
        sent = services.upload(who, path, request.FILES.getlist("file"), replace=bool(request.POST.get("replace")))
    except StoreUnavailable:
        raise
    except LongshoreError as error:
        return _page(request, who, path, error=error.message, status=error.status)
    if sent.done:
        messages.success(request, f"{words.listing(sent.done)} {'is' if len(sent.done) == 1 else 'are'} uploaded.")
    if sent.full:
        return _page(request, who, path, error=sent.full.message, status=sent.full.status)
    if sent.there:
        names = f"{words.listing(sent.there)} {'is' if len(sent.there) == 1 else 'are'}"
        said = f"{names} there already and not replaced. Choose again and tick Replace files of the same name."
        return _page(request, who, path, error=said, status=409)
    return redirect(address(path))


def _check(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Field: names (JSON). Answers {"exists": [...]}, or {"message"}: asked before an upload."""
    try:
        return JsonResponse({"exists": services.existing(who, path, _names(request.POST.get("names", "")))})
    except LongshoreError as error:
        return JsonResponse({"message": error.message}, status=error.status)


def _folder(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Field: name."""
    who.require_write(inside(path, "a"))

    def do(name: str) -> str:
        made = services.make_folder(who, path, name)
        messages.success(request, f"The folder {names_of(made)[-1]} is made.")
        return address(made)

    page = {"title": f"New folder in {path}", "label": "Name", "verb": "Make it", "verb_icon": "folder-plus"}
    return _name_form(request, address(path), do, {**page, "value": ""})


def _rename(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Field: name."""
    who.require_remove(path)
    who.store.stat(path)

    def do(name: str) -> str:
        target = services.rename(who, path, name)
        messages.success(request, f"{path} is now {target}.")
        return address(parent(target))

    name = names_of(path)[-1]
    page = {"title": f"Rename {name}", "label": "New name, or a whole path to move it", "verb": "Rename"}
    return _name_form(request, address(path), do, {**page, "verb_icon": "pencil", "value": name})


def _name_form(request: HttpRequest, url: str, do: Callable[[str], str], page: dict[str, Any]) -> HttpResponseBase:
    status = 200
    if request.method == "POST":
        typed = request.POST.get("name", "")
        try:
            return redirect(do(typed))
        except StoreUnavailable:
            raise
        except LongshoreError as error:
            status = error.status
            page |= {"error": error.message, "value": typed}
    return render(request, "files/name.html", {"nav": "files", "url": url, **page}, status=status)


# --- deleting --------------------------------------------------------------------------------------------------------


def _ask_delete(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Asks before deleting: the path, or those named in it (``name``, several)."""
    names = request.GET.getlist("name")
    if "selected" in request.GET and not names:
        messages.warning(request, "Nothing is selected.")
        return redirect(address(path))
    paths = [inside(path, name) for name in names] or [path]
    gone = services.usage(who, paths)
    what = names_of(paths[0])[-1] if len(paths) == 1 else f"{len(paths)} entries"
    return ask_to_confirm(
        request,
        address(path if names else parent(path)),
        nav="files",
        action=f"{address(path)}?do=delete",
        title=f"Delete {what}?",
        effect=f"{_says(gone, len(paths))} This cannot be undone.",
        fields={"names": json.dumps(names), "count": gone.files},
        type_number=str(gone.files) if gone.files > _TYPE_THE_NUMBER else "",
        verb=f"Delete {what}",
        verb_icon="trash",
        keep="Keep it" if len(paths) == 1 else "Keep them",
    )


def _delete(request: HttpRequest, who: StoreActor, path: str) -> HttpResponseBase:
    """Fields: names (JSON; none means the path itself), count, typed."""
    names = _names(request.POST.get("names") or "[]")
    count = request.POST.get("count", "0")
    if (words.whole(count) or 0) > _TYPE_THE_NUMBER and request.POST.get("typed", "").strip() != count:
        raise BadRequest(f"Type {count} to confirm. Nothing was deleted.")
    paths = [inside(path, name) for name in names] or [path]
    for each in paths:
        who.require_remove(each)
    for each in paths:
        services.delete(who, each)
        audit.record(who.name, "files deleted", each[:200])
    gone = names_of(paths[0])[-1] if len(paths) == 1 else f"{len(paths)} entries"
    messages.success(request, f"{gone} {'is' if len(paths) == 1 else 'are'} deleted.")
    folder = address(path if names else parent(path))
    return redirect(folder if not names else return_url(request, folder))


def _names(text: str) -> list[str]:
    """The names in a field. BadRequest when they are no list."""
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadRequest("The names are no list.")
    return names


def _says(gone: TreeUsage, entries: int) -> str:
    size = words.size(gone.size)
    if gone.folders == 0 and gone.files == 1:
        return f"The file has {size}."
    if gone.files == 0 and gone.folders == entries:
        return "The folder is empty." if entries == 1 else "The folders are empty."
    within = f" in {words.count(gone.folders, 'folder')}" if gone.folders else ""
    return f"{words.count(gone.files, 'file')}{within}, {size}."


_View = Callable[[HttpRequest, StoreActor, str], HttpResponseBase]
_GETS: dict[str, _View] = {
    "": _page,
    "picture": _picture,
    "tar": _tar,
    "folder": _folder,
    "rename": _rename,
    "delete": _ask_delete,
}
_POSTS: dict[str, _View] = {
    "upload": _upload,
    "check": _check,
    "folder": _folder,
    "rename": _rename,
    "delete": _delete,
}
