// Searches all logs on the server for a regular expression, also while they grow, and steps through the hits.

import { follow } from "./follow.js";
import { clear, refresh, show, topPlace } from "./list.js";
import { address, field, part, root, say, view } from "./page.js";
import { forget, load, placeOf, rowAt } from "./rows.js";
import { reopen } from "./stream.js";

const SHADES = 400;  // ticks of the map
let counts = {}, at = -1, state = "", source = null, stays = false, heard = () => {};
export let hits = [];  // [log, line, place when it was found], in order
export const onHits = (act) => { heard = act; };

export const total = () => Object.values(counts).reduce((sum, number) => sum + number, 0);

function showFound() {
  const all = total(), count = all.toLocaleString("en");
  const here = at >= 0 && all ? `${(at + 1).toLocaleString("en")} of ${count}` : count;
  const so = state === "searching" ? " so far" : "";
  part("found").textContent = view.q ? `${here} in ${view.total.toLocaleString("en")} lines${so}` : "";
  part("prev").hidden = part("next").hidden = !hits.length;
  for (const row of document.querySelectorAll("[data-numbers]")) {
    const sum = row.dataset.numbers.split(" ").reduce((sum, number) => sum + (counts[number] || 0), 0);
    row.querySelector("[data-hits]").textContent = view.q ? `${sum.toLocaleString("en")} of ` : "";
    row.dataset.found = view.q ? String(sum) : "";
  }
  drawMap();
  heard();
}

function drawMap() {
  const map = part("map"), ticks = new Set();
  for (const [, , rank] of hits) ticks.add(Math.min(SHADES - 1, Math.floor((rank / Math.max(1, view.total)) * SHADES)));
  map.replaceChildren(...[...ticks].map((tick) => {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ x: 0, y: tick * (1000 / SHADES), width: 12, height: 3 }))
      rect.setAttribute(name, value);
    return rect;
  }));
}
part("map").addEventListener("click", (event) => {
  const place = part("map").getBoundingClientRect();
  follow(false);
  show(Math.floor(((event.clientY - place.top) / place.height) * view.total));
});

// ``stay``: the reader was led to lines by a link, and is not led on to the first match.
export async function search(text, stay = false) {
  close();
  stays = stay;
  const before = view.q;
  view.q = text;
  try {
    forget();
    await load({ from: topPlace() + 1 });  // the lines with their marks; a wrong expression is refused here
  } catch (error) {
    view.q = before;
    part("problem").textContent = error.message;
    part("problem").hidden = false;
    field.setAttribute("aria-invalid", "true");
    return;
  }
  part("problem").hidden = true;
  field.removeAttribute("aria-invalid");
  hits = [];
  counts = {};
  at = -1;
  state = text ? "searching" : "";
  clear();
  refresh();
  showFound();
  reopen();
  const shown = new URL(location.href);
  if (text) shown.searchParams.set("q", text);
  else shown.searchParams.delete("q");
  history.replaceState(null, "", shown);
  if (text) open();
}

function open() {
  source = new EventSource(address(root.dataset.search, {}));
  source.addEventListener("found", (event) => take(JSON.parse(event.data)));
  source.addEventListener("end", close);
  source.onerror = () => {
    if (state === "searching") say("The search was broken off. Press Enter to search again.");
    close();
  };
}

function close() {
  if (source) source.close();
  source = null;
}

function take(data) {
  for (const hit of data.hits) hits.push(hit);
  if (data.hits.length) hits.sort((one, other) => one[2] - other[2]);
  counts = data.counts;
  state = data.done ? "done" : "searching";
  showFound();
  if (at < 0 && hits.length && !stays) step(1, true);
}

export async function step(by, first = false) {
  if (!hits.length) return;
  at = first ? 0 : (Math.max(at, by > 0 ? -1 : 0) + by + hits.length) % hits.length;
  await toHit(hits[at]);
  showFound();
}

async function toHit([number, line]) {
  follow(false);
  const row = await findRow(number, line);
  if (row) show(row.place, `${number}.${line}`);
}

// The row of a line of a log, with its place; null where it is not there.
export async function findRow(number, line) {
  const key = `${number}.${line}`;
  let place = placeOf(key);
  try {
    if (place === undefined || !rowAt(place)) place = (await load({ at: key })).place - 1;
  } catch (error) { say(error.message); return null; }
  return { ...rowAt(place), place };
}

export function searchField(stay) {
  part("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (text !== view.q) search(text).then(() => text && field.blur());
    else if (text) step(1);
  });
  part("prev").addEventListener("click", () => step(-1));
  part("next").addEventListener("click", () => step(1));
  if (view.q) { const text = view.q; view.q = ""; search(text, stay); }
}
