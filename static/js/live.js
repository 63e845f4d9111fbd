// One EventSource for the page. Parts arrive as HTML and replace the element with their id, but never one that the
// reader has in hand: a focused field, a selected row. Those wait until they are let go.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const RETRY = 30000;  // milliseconds between two tries after the browser has given up
  const waiting = new Map();
  let source = null;
  let lost = null;

  const show = () => {
    for (const node of document.querySelectorAll("[data-live]")) {
      const clock = lost?.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
      const text = lost ? `Not live since ${clock}, trying again` : "Live";
      if (node.dataset.said === text) continue;
      const sprite = (one(".ls-brand use")?.getAttribute("href") ?? "").replace(/#.*/, "");
      node.dataset.said = text;
      node.classList.toggle("ls-no", Boolean(lost));
      const icon = `${sprite}#access-point${lost ? "-off" : ""}`;
      node.innerHTML = `<svg class="icon" aria-hidden="true"><use href="${icon}"/></svg> ${text}`;
      node.hidden = false;
    }
  };

  const inHand = (node) => {
    const focused = document.activeElement;
    return (node.contains(focused) && focused.matches("input:not([type=checkbox]), select, textarea"))
      || one("input:checked", node);
  };

  const swap = (id, html) => {
    const node = document.getElementById(id);
    if (!node) return;
    if (inHand(node)) { waiting.set(id, html); return; }
    waiting.delete(id);
    const template = document.createElement("template");
    template.innerHTML = html.trim();
    const fresh = template.content.firstElementChild;
    for (const details of node.querySelectorAll("details[id]")) {
      const same = template.content.getElementById(details.id);
      if (same) same.open = details.open;
    }
    const focused = node.contains(document.activeElement) ? document.activeElement : null;
    const scroll = [...node.querySelectorAll(".ls-scroll")].map((part) => part.scrollLeft);
    node.replaceWith(fresh);
    window.htmx?.process(fresh);
    [...fresh.querySelectorAll(".ls-scroll")].forEach((part, at) => { part.scrollLeft = scroll[at] ?? 0; });
    if (focused) again(fresh, focused)?.focus({ preventScroll: true });
  };

  const again = (fresh, focused) => {
    if (focused.id) return document.getElementById(focused.id);
    const href = focused.getAttribute("href");
    const label = focused.getAttribute("aria-label");
    if (href) return one(`[href="${CSS.escape(href)}"]`, fresh);
    return label && one(`[aria-label="${CSS.escape(label)}"]`, fresh);
  };

  const receive = (parts) => {
    for (const [id, html] of Object.entries(parts)) swap(id, html);
    document.dispatchEvent(new Event("ls:swapped"));
    show();
  };

  const close = () => { source?.close(); source = null; };

  const open = () => {
    const main = one("main[data-stream]");
    if (!main || source || document.hidden) return;
    source = new EventSource(main.dataset.stream);
    source.addEventListener("open", () => { lost = null; show(); });
    source.addEventListener("parts", (event) => receive(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      lost ??= new Date();
      show();
      if (source?.readyState === EventSource.CLOSED) { close(); setTimeout(open, RETRY); }
    });
  };

  const letGo = () => { for (const [id, html] of [...waiting]) swap(id, html); };
  document.addEventListener("focusout", () => setTimeout(letGo));
  document.addEventListener("ls:selection", () => setTimeout(letGo));
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  document.addEventListener("htmx:afterSwap", () => { close(); waiting.clear(); show(); open(); });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
})();
