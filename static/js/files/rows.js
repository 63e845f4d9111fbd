// One row for each upload: its state, its progress, and what can be done with it.

import { one, words } from "./page.js";

const SPRITE = one("svg.icon use")?.getAttribute("href").replace(/#.*/, "");
const ICONS = { done: "circle-check", failed: "alert-circle", there: "alert-circle", cancelled: "x", kept: "x" };
const ACTS = {  // of a state: what its buttons say, and what data-act means in uploads.js
  waits: [["Cancel", "stop"]],
  sends: [["Cancel", "stop"]],
  there: [["Replace", "replace"], ["Keep", "keep"]],
  failed: [["Try again", "retry"]],
};
const list = one("#uploads ul");
export const items = [];

export const isOpen = (item) => ["waits", "sends", "keeps"].includes(item.state);

export function add(name, file) {
  const line = document.createElement("li");
  line.innerHTML = '<div class="ls-row"><svg class="icon" aria-hidden="true"><use/></svg>'
    + '<b class="fw-medium ls-break"></b><span class="ls-acts ls-push ls-row"></span></div>'
    + '<span class="ls-says ls-small ls-break"></span>';
  one("b", line).textContent = name;
  line.append(bar());
  list.append(line);
  const item = { name, file, line, state: "waits", sent: 0, replace: false };
  items.push(item);
  show(item);
  return item;
}

export function turn(item, state, why = "") {
  Object.assign(item, { state, why });
  show(item);
}

export function show(item) {
  const { state, line } = item;
  one(".ls-says", line).textContent = sentence(item);
  one(".ls-says", line).classList.toggle("ls-no", state === "failed");
  showBar(item);
  one("use", line).setAttribute("href", `${SPRITE}#${ICONS[state] ?? "upload"}`);
  if (item.shown === state) return;
  item.shown = state;
  showActs(item);
  one("[data-cancel-all]").hidden = items.filter(isOpen).length < 2;
  one("[data-replace-all]").hidden = items.filter((each) => each.state === "there").length < 2;
}

function sentence({ state, sent, file, began, why }) {
  const speed = began && sent ? `, ${words((1000 * sent) / Math.max(1, Date.now() - began))}/s` : "";
  return {
    waits: `waits, ${words(file.size)}`,
    sends: `${words(sent)} of ${words(file.size)}${speed}`,
    keeps: "being written",
    there: "is there already",
    done: words(file.size),
    failed: why,
    cancelled: "cancelled",
    kept: "kept as it was",
  }[state];
}

function showBar({ state, line, sent, file, name }) {
  const percent = state === "done" ? 100 : file.size ? Math.round((100 * sent) / file.size) : 0;
  const drawn = one(".ls-bar", line);
  drawn.toggleAttribute("hidden", !["sends", "keeps"].includes(state));
  drawn.setAttribute("aria-label", `${percent} % of ${name} sent`);
  one("rect", drawn).setAttribute("width", String(percent));
}

function showActs({ state, line, name }) {
  const had = line.contains(document.activeElement);
  one(".ls-acts", line).replaceChildren(...(ACTS[state] ?? []).map(([text, act]) => button(text, act, name)));
  if (had) (one("button", line) ?? one("[data-choose]"))?.focus();
}

function button(text, act, name) {
  const drawn = document.createElement("button");
  drawn.type = "button";
  drawn.className = "btn tiny";
  drawn.textContent = text;
  drawn.dataset.act = act;
  drawn.setAttribute("aria-label", `${text} ${name}`);
  return drawn;
}

function bar() {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const attributes = { class: "ls-bar", role: "img", viewBox: "0 0 100 8", preserveAspectRatio: "none" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  const rect = document.createElementNS(space, "rect");
  rect.setAttribute("class", "ls-running");
  rect.setAttribute("height", "8");
  svg.append(rect);
  return svg;
}
