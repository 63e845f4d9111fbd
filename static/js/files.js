// The page of a folder: uploads by the WebHDFS gateway, several at once, with progress. Without it the form uploads.
"use strict";
(() => {
  // The NameNode's own page of files named the folder after a #.
  if (location.hash.startsWith("#/")) {
    location.replace(`/files${location.hash.slice(1).replace(/\/+$/, "")}`);
    return;
  }
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const AT_ONCE = 3;
  const SPRITE = one("svg.icon use")?.getAttribute("href").replace(/#.*/, "");
  const form = one("#upload");
  if (!form) return;  // this folder can only be read
  const input = one("#upload-files");
  const card = one("#uploads");
  const list = one("ul", card);
  const items = [];
  const say = (text) => { one("#said").textContent = text; };

  // Only the button that deletes sends what is selected; the search field does not.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-delete]");
    if (!button) return;
    event.preventDefault();
    const names = all("#listing tbody input[name=name]:checked").map((box) => ["name", box.value]);
    if (!names.length) { say("Nothing is selected"); return; }
    const link = document.createElement("a");
    link.href = `${button.form.action}?${new URLSearchParams([["do", "delete"], ...names])}`;
    link.dataset.dialog = "";
    button.after(link);
    link.click();
    link.remove();
  });

  const words = (bytes) => {
    let value = bytes;
    let unit = "B";
    for (const larger of ["KB", "MB", "GB", "TB"]) {
      if (value < 1000) break;
      value /= 1024;
      unit = larger;
    }
    return `${unit === "B" || value >= 100 ? Math.round(value) : value.toFixed(1)} ${unit}`;
  };
  const address = (path) => `/webhdfs/v1${path.split("/").map(encodeURIComponent).join("/")}`;
  const within = (name) => `${form.dataset.to.replace(/\/$/, "")}/${name}`;

  // ---- one line for each file ----
  const button = (text, act, name) => {
    const made = document.createElement("button");
    made.type = "button";
    made.className = "btn tiny";
    made.textContent = text;
    made.setAttribute("aria-label", `${text} ${name}`);
    made.addEventListener("click", act);
    return made;
  };
  const bar = () => {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    for (const [name, value] of [["class", "ls-bar"], ["role", "img"], ["viewBox", "0 0 100 8"], ["preserveAspectRatio", "none"]])
      svg.setAttribute(name, value);
    const rect = document.createElementNS(space, "rect");
    rect.setAttribute("class", "ls-running");
    rect.setAttribute("height", "8");
    svg.append(rect);
    return svg;
  };
  const show = (item) => {
    const { state, line, sent, file, name } = item;
    const percent = state === "done" ? 100 : file.size ? Math.round((100 * sent) / file.size) : 0;
    const speed = item.began && sent ? `, ${words((1000 * sent) / Math.max(1, Date.now() - item.began))}/s` : "";
    const text = {
      waits: `waits, ${words(file.size)}`,
      sends: `${words(sent)} of ${words(file.size)}${speed}`,
      keeps: "being written",
      there: "is there already",
      done: words(file.size),
      failed: item.why,
      cancelled: "cancelled",
      kept: "kept as it was",
    }[state];
    one(".ls-says", line).textContent = text;
    one(".ls-says", line).classList.toggle("ls-no", state === "failed");
    const drawn = one(".ls-bar", line);
    drawn.toggleAttribute("hidden", !["sends", "keeps"].includes(state));
    drawn.setAttribute("aria-label", `${percent} % of ${name} sent`);
    one("rect", drawn).setAttribute("width", String(percent));
    one("use", line).setAttribute("href", `${SPRITE}#${{ done: "circle-check", failed: "alert-circle", there: "alert-circle", cancelled: "x", kept: "x" }[state] ?? "upload"}`);
    if (item.shown === state) return;
    item.shown = state;
    const acts = {
      waits: [["Cancel", () => stop(item)]],
      sends: [["Cancel", () => stop(item)]],
      there: [["Replace", () => { item.replace = true; turn(item, "waits"); pump(); }], ["Keep", () => turn(item, "kept")]],
      failed: [["Try again", () => { turn(item, "waits"); pump(); }]],
    }[state] ?? [];
    const had = line.contains(document.activeElement);
    one(".ls-acts", line).replaceChildren(...acts.map(([label, act]) => button(label, act, name)));
    if (had) (one("button", line) ?? one("[data-choose]"))?.focus();
    const open = items.filter((each) => ["waits", "sends", "keeps"].includes(each.state));
    const there = items.filter((each) => each.state === "there");
    one("[data-cancel-all]").hidden = open.length < 2;
    one("[data-replace-all]").hidden = there.length < 2;
  };
  const turn = (item, state, why = "") => { Object.assign(item, { state, why }); show(item); };
  const stop = (item) => { item.request?.abort(); turn(item, "cancelled"); pump(); };

  const add = (name, file) => {
    const line = document.createElement("li");
    line.innerHTML = '<div class="ls-row"><svg class="icon" aria-hidden="true"><use/></svg><b class="fw-medium ls-break"></b><span class="ls-acts ls-push ls-row"></span></div><span class="ls-says ls-small ls-break"></span>';
    one("b", line).textContent = name;
    line.append(bar());
    list.append(line);
    const item = { name, file, line, state: "waits", sent: 0, replace: false };
    items.push(item);
    show(item);
    return item;
  };

  // ---- sending ----
  const reason = (request) => {
    if (request.status === 401) return "The session has ended. Sign in again in another tab, then try again.";
    try { return JSON.parse(request.responseText).RemoteException.message; } catch { return `The portal answered ${request.status}.`; }
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
  const start = async (chosen) => {
    if (!chosen.length) return;
    card.hidden = false;
    const fresh = chosen.map(([name, file]) => add(name, file));
    const body = new FormData();
    body.set("names", JSON.stringify(fresh.map((item) => item.name)));
    body.set("csrfmiddlewaretoken", one("[name=csrfmiddlewaretoken]", form).value);
    const headers = { Accept: "application/json" };
    const told = await fetch(form.dataset.check, { method: "POST", body, headers })
      .then(async (answer) => answer.redirected
        ? { message: "The session has ended. Sign in again." } : await answer.json())
      .catch(() => ({ message: "The portal does not answer." }));
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

  // ---- choosing and dropping ----
  const walk = async (entry, before, found) => {
    if (entry.isFile) {
      found.push([before + entry.name, await new Promise((done, fail) => entry.file(done, fail))]);
      return;
    }
    const reader = entry.createReader();
    for (;;) {
      const part = await new Promise((done, fail) => reader.readEntries(done, fail));
      if (!part.length) return;
      for (const each of part) await walk(each, `${before}${entry.name}/`, found);
    }
  };
  const dropped = async (transfer) => {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    if (!entries.length) return [...transfer.files].map((file) => [file.name, file]);
    const found = [];
    for (const entry of entries) await walk(entry, "", found);
    return found;
  };
  const isFiles = (event) => form && [...(event.dataTransfer?.types ?? [])].includes("Files");
  const mark = (over) => form?.classList.toggle("ls-over", over);

  if (form) {
    one("[data-plain]", form).hidden = true;
    input.required = false;
    input.addEventListener("change", () => {
      const chosen = [...input.files].map((file) => [file.name, file]);
      input.value = "";
      start(chosen);
    });
    one("[data-choose]").addEventListener("click", (event) => { event.preventDefault(); input.click(); });
  }
  document.addEventListener("dragover", (event) => { if (isFiles(event)) { event.preventDefault(); mark(true); } });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) mark(false); });
  document.addEventListener("drop", async (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    mark(false);
    start(await dropped(event.dataTransfer).catch(() => []));
  });
  one("[data-cancel-all]").addEventListener("click", () => {
    for (const item of items) if (["waits", "sends"].includes(item.state)) { item.request?.abort(); turn(item, "cancelled"); }
    pump();
  });
  one("[data-replace-all]").addEventListener("click", () => {
    for (const item of items) if (item.state === "there") { item.replace = true; turn(item, "waits"); }
    pump();
  });
  addEventListener("beforeunload", (event) => {
    if (items.some((item) => ["sends", "keeps", "waits"].includes(item.state))) event.preventDefault();
  });
})();
