// The plots of a job: those of the server are replaced by ones that zoom and go on. Every plot shows the same time.

import { draw } from "./plot.js";

const EVERY = 10_000; // ms between two looks at what is new
const LEAST = 120; // seconds of the narrowest view
const drawn = new Map();
let root = null;
let view = null; // [from, to] in seconds; null: what the page asks for
let shown = null; // the last answer
let asked = 0;
let due = 0;

async function load() {
  const mine = ++asked;
  const address = new URL(root.dataset.plots, location.href);
  if (view) { address.searchParams.set("from", view[0]); address.searchParams.set("to", view[1]); }
  const answer = await fetch(address, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer || !answer.ok || mine !== asked) return;
  shown = await answer.json();
  root.querySelectorAll("[data-plot]").forEach(show);
  const step = root.querySelector("[data-step]");
  if (step) step.textContent = shown.step % 60 ? `${shown.step} s` : `${shown.step / 60} min`;
}

function show(box) {
  const found = shown.plots[box.dataset.plot] || { unit: box.dataset.unit, labels: [], lines: [], limit: null };
  const before = drawn.get(box);
  if (before && before.labels.join() === found.labels.join()) {
    before.plot.setData([shown.times, ...found.lines]);
    return;
  }
  if (before) before.plot.destroy();
  drawn.set(box, { plot: draw(box, shown.times, found, zoom), labels: found.labels });
}

function zoom(to) {
  view = to && to[1] - to[0] < LEAST ? widened(to, LEAST) : to;
  clearTimeout(due); // all plots tell of the same selection
  due = setTimeout(load);
}

function widened([from, to], wide) {
  const middle = (from + to) / 2;
  return [Math.floor(middle - wide / 2), Math.ceil(middle + wide / 2)];
}

const MOVES = {
  in: (from, to) => widened([from, to], Math.max(LEAST, (to - from) / 2)),
  out: (from, to) => widened([from, to], (to - from) * 2),
  earlier: (from, to) => [from - Math.ceil((to - from) / 2), to - Math.ceil((to - from) / 2)],
  later: (from, to) => [from + Math.ceil((to - from) / 2), to + Math.ceil((to - from) / 2)],
};

function begin() {
  const found = document.querySelector("[data-plots]");
  if (found === root) return;
  drawn.forEach((one) => one.plot.destroy());
  drawn.clear();
  [root, view, shown] = [found, null, null];
  if (root && root.querySelector("[data-plot]")) load();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-zoom]");
  if (!button || !shown) return;
  const move = MOVES[button.dataset.zoom];
  zoom(move ? move(...(view || [shown.from, shown.to])) : null);
});
window.addEventListener("resize", () => {
  drawn.forEach(({ plot }, box) => plot.setSize({ width: box.clientWidth, height: plot.height }));
});
document.addEventListener("htmx:afterSettle", begin);
document.querySelector("html").addEventListener("theme", () => { drawn.clear(); if (shown) load(); });
setInterval(() => {
  if (root && "goesOn" in root.dataset && !view && !document.hidden && drawn.size) load();
}, EVERY);
begin();
