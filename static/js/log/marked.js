// What can be done with the marked lines: a link to them, their text, a file with them.

import { refresh } from "./list.js";
import { alone, ask, clock, part, root, say, sources, view } from "./page.js";
import { inOrder, isOfOne, nameOf, onRange, setRange, anchor } from "./range.js";
import { placeOf } from "./rows.js";

const MOST = 10_000;  // lines that are copied as text
const bar = part("marked");
const button = (name) => bar.querySelector(`[data-marked="${name}"]`);
let extending = false;
export const isExtending = () => extending;

function setExtending(on) {
  extending = on;
  button("extend").setAttribute("aria-pressed", String(on));
}

onRange(() => {
  setExtending(false);
  bar.hidden = !anchor();
  if (anchor()) {
    bar.querySelector("b").textContent = words();
    button("file").href = fileAddress();
    const hash = `#${nameOf()}`;
    if (location.hash !== hash) history.replaceState(history.state, "", hash);
  }
  refresh();
});

function placesOf() {
  return inOrder().map((row) => placeOf(`${row.s}.${row.number}`) ?? row.place ?? 0);
}

function countOf() {
  const [first, last] = isOfOne() ? inOrder().map((row) => row.number) : placesOf();
  return last - first + 1;
}

function words() {
  const count = countOf(), lines = count === 1 ? "Line" : `${count.toLocaleString("en")} lines`;
  const [first] = inOrder();
  const number = count === 1 ? ` ${first.number.toLocaleString("en")}` : "";
  return `${lines}${number}${isOfOne() && !alone ? ` of ${sources[first.s].label}` : ""} selected`;
}

// Of a range of one log all others are left out.
const others = (s) => sources.map((_, number) => number).filter((number) => number !== s || view.hidden.has(number));
const hidden = () => (isOfOne() ? others(inOrder()[0].s) : [...view.hidden]).join(",");

function fileAddress() {
  const [first, last] = inOrder().map((row) => `${row.s}.${row.number}`);
  const url = new URL(root.dataset.download, location.href);
  for (const [name, value] of Object.entries({ first, last, hide: hidden() }))
    if (value) url.searchParams.set(name, value);
  return url.href;
}

// The lines as the page shows them.
async function textOf() {
  const [from, to] = isOfOne() ? inOrder().map((row) => row.number) : placesOf().map((place) => place + 1);
  const last = Math.min(to, from + MOST - 1), lines = [];
  while (from + lines.length <= last) {
    const begin = from + lines.length;
    const got = await ask({ from: begin, count: last - begin + 1, hide: hidden() });
    if (!got.rows.length) break;
    lines.push(...got.rows.slice(0, last - begin + 1).map(textOfRow));
  }
  if (last < to) say(`Only the first ${MOST.toLocaleString("en")} lines were copied. Download has all.`);
  return lines.map((line) => `${line}\n`).join("");
}

function textOfRow(row) {
  const isTimed = !part("box").classList.contains("ls-untimed") && row.time;
  const words = [isTimed ? clock.format(new Date(row.time)) : "", isOfOne() ? "" : sources[row.s].label, row.text];
  return words.filter((word, at) => word || at === 2).join("  ");
}

const copy = (text, button) => dispatchEvent(new CustomEvent("copy-text", { detail: { text, button } }));
button("link").addEventListener("click", (event) => copy(location.href, event.currentTarget));
button("text").addEventListener("click", async (event) => {
  const pressed = event.currentTarget;
  try { copy(await textOf(), pressed); } catch (error) { say(error.message); }
});
button("extend").addEventListener("click", () => setExtending(!extending));
button("clear").addEventListener("click", clearMarks);

export function clearMarks() {
  setRange();
  history.replaceState(history.state, "", location.pathname + location.search);
}
