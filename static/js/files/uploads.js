// Sends files through the WebHDFS gateway, several at once. Without it the form uploads.

import { address, form, one, say, within } from "./page.js";
import { add, isOpen, items, show, turn } from "./rows.js";

const AT_ONCE = 3;
const card = one("#uploads");

export const start = async (chosen) => {
  if (!chosen.length) return;
  card.hidden = false;
  const fresh = chosen.map(([name, file]) => add(name, file));
  const body = new FormData();
  body.set("names", JSON.stringify(fresh.map((item) => item.name)));
  body.set("csrfmiddlewaretoken", one("[name=csrfmiddlewaretoken]", form).value);
  const told = await check(body);
  const there = new Set(told.exists ?? []);
  for (const item of fresh) {
    item.checked = true;
    if (item.state !== "waits") continue;
    if (told.message) turn(item, "failed", told.message);
    else if (there.has(item.name)) turn(item, "there");
  }
  if (there.size) say(`${there.size} of them there already: replace or keep`);
  pump();
};

const check = async (body) => {
  try {
    const answer = await fetch(form.dataset.check, { method: "POST", body, headers: { Accept: "application/json" } });
    return answer.redirected ? { message: "The session has ended. Sign in again." } : await answer.json();
  } catch { return { message: "The portal does not answer." }; }
};

const reason = (request) => {
  if (request.status === 401) return "The session has ended. Sign in again in another tab, then try again.";
  try { return JSON.parse(request.responseText).RemoteException.message; }
  catch { return `The portal answered ${request.status}.`; }
};

const send = (item) => {
  const request = new XMLHttpRequest();
  item.request = request;
  item.began = Date.now();
  item.sent = 0;
  turn(item, "sends");
  request.upload.onprogress = (event) => { item.sent = event.loaded; if (item.state === "sends") show(item); };
  request.upload.onload = () => { if (item.state === "sends") turn(item, "keeps"); };
  request.onerror = () => { turn(item, "failed", "The connection broke off."); pump(); };
  request.onload = () => {
    const isThere = request.status === 403 && request.responseText.includes("FileAlreadyExistsException");
    if (request.status === 201) turn(item, "done");
    else if (isThere && !item.replace) turn(item, "there");
    else turn(item, "failed", reason(request));
    pump();
  };
  request.open("PUT", `${address(within(item.name))}?op=CREATE&data=true&overwrite=${item.replace}`);
  request.setRequestHeader("X-XSRF-HEADER", "1");
  request.send(item.file);
};

let isFresh = true;
const pump = () => {
  const under = items.filter((item) => ["sends", "keeps"].includes(item.state)).length;
  const next = items.filter((item) => item.state === "waits" && item.checked).slice(0, AT_ONCE - under);
  next.forEach(send);
  if (next.length || under) isFresh = false;
  else if (!isFresh) settled();
};

const settled = async () => {
  isFresh = true;
  const done = items.filter((item) => item.state === "done").length;
  const open = items.filter((item) => ["failed", "there"].includes(item.state)).length;
  say(`${done} uploaded${open ? `, ${open} not` : ""}`);
  const answer = await fetch(location.href);
  if (!answer.ok || answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = one("#listing", page);
  if (fresh && !one("#listing").contains(document.activeElement)) one("#listing").replaceWith(fresh);
};

// What the buttons of a row do, and "Cancel all" and "Replace all" to many rows.
const acts = {
  stop(item) { item.request?.abort(); turn(item, "cancelled"); },
  replace(item) { item.replace = true; turn(item, "waits"); },
  keep(item) { turn(item, "kept"); },
  retry(item) { turn(item, "waits"); },
};
const doTo = (chosen, act) => {
  chosen.forEach(act);
  pump();
};

card.addEventListener("click", (event) => {
  const act = acts[event.target.closest("[data-act]")?.dataset.act];
  if (act) doTo(items.filter((item) => item.line.contains(event.target)), act);
});
one("[data-cancel-all]").addEventListener("click", () => {
  doTo(items.filter((item) => ["waits", "sends"].includes(item.state)), acts.stop);
});
one("[data-replace-all]").addEventListener("click", () => {
  doTo(items.filter((item) => item.state === "there"), acts.replace);
});
addEventListener("beforeunload", (event) => { if (items.some(isOpen)) event.preventDefault(); });
