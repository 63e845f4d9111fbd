// What every page has: ticking times, copy buttons, dialogs, bulk selection, keys. Pages work without it.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  document.documentElement.classList.add("js");
  try {  // what the submit page remembers for the way over the sign-in
    if (!/^\/(login|submit)$/.test(location.pathname)) sessionStorage.removeItem("submitted");
  } catch { /* a browser that keeps nothing */ }

  // ---- times: the same words as base/core/words.py ----
  const two = (whole, big, bigUnit, small, smallUnit) => {
    const rest = Math.floor((whole % big) / small);
    return `${Math.floor(whole / big)} ${bigUnit}` + (rest ? ` ${rest} ${smallUnit}` : "");
  };
  const duration = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return two(whole, 60, "min", 1, "s");
    if (whole < 86400) return two(whole, 3600, "h", 60, "min");
    return two(whole, 86400, "d", 3600, "h");
  };
  const ago = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 5) return "just now";
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]])
      if (whole >= size) return `${Math.floor(whole / size)} ${unit} ago`;
    return `${whole} s ago`;
  };
  const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const tick = () => {
    if (document.hidden) return;
    const now = Date.now();
    for (const node of all("time[data-since]")) say(node, duration((now - node.dataset.since) / 1000));
    for (const node of all("time[data-until]")) {
      const seconds = (node.dataset.until - now) / 1000;
      const half = [86400, 3600, 60].find((size) => seconds >= size) / 2 || 0;
      say(node, seconds < 1 ? "now" : `in ${ago(Math.max(5, seconds + half)).replace(" ago", "")}`);
    }
    for (const node of all("time[data-ago]")) {
      const seconds = (now - node.dataset.ago) / 1000;
      if (seconds < 7 * 86400) say(node, ago(seconds));
    }
  };
  setInterval(tick, 1000);

  // ---- the reader's zone: the server writes all times in it once it has been told. The first page of a browser is
  // loaded again then, unless that would lose something or the cookie is refused. ----
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const told = () => document.cookie.split("; ").includes(`zone=${zone}`);
  if (zone && !told()) {
    document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
    const written = one("[data-offset]")?.dataset.offset;
    const differs = written !== undefined && Number(written) !== -new Date().getTimezoneOffset();
    if (told() && differs && !one("form[data-submit]")) location.reload();
  }

  // ---- copy ----
  const announce = (text) => say(one("#said"), text);
  const copied = (button) => {
    const use = one("use", button);
    const before = use?.getAttribute("href");
    use?.setAttribute("href", before.replace(/#.*/, "#check"));
    announce("Copied");
    setTimeout(() => { use?.setAttribute("href", before); announce(""); }, 2000);
  };
  const write = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement("textarea");  // a page served over plain http has no clipboard
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  addEventListener("copy-text", async ({ detail }) => {  // of modules: {text, button}
    await write(detail.text);
    copied(detail.button);
  });
  const textOf = (node) => node.matches("ol.ls-edit")
    ? all("li > span:last-child", node).map((line) => line.textContent).join("\n") + "\n"
    : node.textContent;

  // ---- dialogs: the server's question, in a dialog instead of on a page of its own ----
  const ask = async (url, opener) => {
    const dialog = one("#dialog");
    const answer = await fetch(url, { headers: { "HX-Request": "true", "HX-Current-URL": location.href } });
    if (!answer.ok || answer.redirected) { location.assign(url); return; }
    dialog.innerHTML = await answer.text();
    dialog.showModal();
    one("[data-close]", dialog)?.focus();
    dialog.addEventListener("close", () => {
      if (opener?.isConnected) opener.focus();
    }, { once: true });
  };

  // ---- selected rows ----
  const boxes = (form) => all("tbody input[type=checkbox]", form);
  const count = (form) => {
    const chosen = boxes(form).filter((box) => box.checked);
    for (const box of boxes(form)) box.closest("tr").toggleAttribute("aria-selected", box.checked);
    for (const row of all("tr[aria-selected]", form)) row.setAttribute("aria-selected", "true");
    const n = chosen.length;
    const label = one("[data-selected]", form);
    if (label) label.textContent = n ? `${n} selected` : "None selected";
    const verb = one("[data-bulk-text]", form);
    if (verb) verb.textContent = n ? `Stop ${n} job${n > 1 ? "s" : ""}` : "Stop selected";
    const every = one("[data-all]", form);
    if (every) { every.checked = n > 0 && n === boxes(form).length; every.indeterminate = n > 0 && !every.checked; }
    document.dispatchEvent(new Event("ls:selection"));
  };

  document.addEventListener("click", (event) => {
    const acts = "[data-copy], [data-copy-from], [data-dialog], [data-close], [data-keys], [data-show]";
    const target = event.target.closest(acts);
    if (!target) return;
    const data = target.dataset;
    if ("copy" in data) write(data.copy).then(() => copied(target));
    else if ("copyFrom" in data) write(textOf(one(`#${data.copyFrom}`))).then(() => copied(target));
    else if ("keys" in data) one("#keys").showModal();
    else if ("show" in data) {
      const field = one(`#${data.show}`);
      const shown = field.type === "text";
      field.type = shown ? "password" : "text";
      target.setAttribute("aria-pressed", String(!shown));
      target.textContent = shown ? "Show" : "Hide";
    } else if ("close" in data) {
      const dialog = target.closest("dialog");
      if (dialog) { event.preventDefault(); dialog.close(); }
    } else if (!event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      const form = target.form;
      ask(form ? `${form.action}?${new URLSearchParams(new FormData(form))}` : target.href, target);
    }
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-bulk]");
    if (form && event.target.matches("[data-all]")) for (const box of boxes(form)) box.checked = event.target.checked;
    if (form) count(form);
    if (event.target.matches("[data-auto] select, [data-filters] select")) event.target.form.requestSubmit();
    if (event.target.matches("[data-keys-off]")) localStorage.setItem("keys", event.target.checked ? "off" : "on");
  });
  document.addEventListener("reset", ({ target }) => setTimeout(() => target.matches("[data-bulk]") && count(target)));
  document.addEventListener("ls:swapped", () => { const form = one("[data-bulk]"); if (form) count(form); });

  // In a row that scrolls on a narrow screen, where one is must be in sight.
  const inSight = () => {
    for (const node of all("[data-in-sight] [aria-current]")) {
      const row = node.closest("[data-in-sight]");
      row.scrollLeft += node.getBoundingClientRect().right - row.getBoundingClientRect().right + 16;
    }
  };
  inSight();
  document.addEventListener("htmx:afterSettle", inSight);

  // The system may be dark while nobody has chosen: then the switch leads to light.
  const theme = one("button[name=theme]");
  if (theme && !document.documentElement.dataset.bsTheme && matchMedia("(prefers-color-scheme: dark)").matches) {
    theme.value = "light";
    theme.setAttribute("aria-label", "Switch to light colours");
    one("use", theme).setAttribute("href", one("use", theme).getAttribute("href").replace("#moon", "#sun"));
  }
  const off = one("[data-keys-off]");
  if (off) off.checked = localStorage.getItem("keys") === "off";

  // ---- the timeline begins at its end: what runs now is there ----
  for (const line of all(".ls-tl")) line.scrollLeft = line.scrollWidth;

  // ---- keys ----
  let before = "";
  const rows = () => all("tr[data-href]");
  const go = (url) => location.assign(url);
  const step = (by) => {
    const list = rows();
    const at = list.findIndex((row) => row.contains(document.activeElement));
    const next = list[Math.min(list.length - 1, Math.max(0, at + by))];
    one("a", next ?? document)?.focus();
  };
  const plain = {
    "/": () => (one("[data-log-search]") || one(".ls-main input[type=search]") || one(".ls-jump input")).focus(),
    "?": () => one("#keys").showModal(),
    c: () => go("/submit"),
    j: () => step(1),
    k: () => step(-1),
    x: () => one("tr:focus-within input[type=checkbox]")?.click(),
  };
  const after = { g: { h: "/", j: "/jobs", n: "/nodes", v: "/vcs", f: "files" } };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      one("form[data-submit] #submit")?.click();
      return;
    }
    const fields = "input:not([type=checkbox]), textarea, select, [contenteditable], dialog[open]";
    const typing = event.target.closest(fields);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem("keys") === "off") return;
    const second = after[before]?.[event.key];
    before = event.key;
    const tab = /^[1-9]$/.test(event.key) && one(`[data-tab="${event.key}"]`);
    if (second === "files") go(one(".ls-nav a[href^='/files']")?.href ?? "/files");
    else if (second) go(second);
    else if (tab) go(tab.href);
    else if (plain[event.key] && !(event.key === "j" && before === "g")) plain[event.key]();
    else return;
    event.preventDefault();
  });
})();
