// Keys of the log page. They are listed in components/_keys.html and below the log.

import { follow } from "./follow.js";
import { show, topPlace } from "./list.js";
import { box, field, idOf, keyOf, list, single, view } from "./page.js";
import { clearMarks } from "./marked.js";
import { anchor, endsIn, mover, setRange } from "./range.js";
import { placeOf, rowAt } from "./rows.js";
import { step } from "./search.js";
import { toggleTask } from "./tasks.js";
import { toggleTime, toggleWrap } from "./options.js";

const keys = {
  "/": () => field.focus(), n: () => step(1), N: () => step(-1), f: () => follow(!view.following),
  w: toggleWrap, t: toggleTime, G: () => follow(true), j: () => stepLine(1), k: () => stepLine(-1),
};
for (let digit = 1; digit <= 9; digit += 1) keys[digit] = () => toggleTask(digit - 1);
let g = 0;

function stepLine(by) {
  follow(false);
  const from = document.activeElement.closest("#log-lines > li");
  const top = box.getBoundingClientRect().top;
  const next = !from
    ? [...list.children].find((item) => item.getBoundingClientRect().bottom > top)
    : by > 0 ? from.nextElementSibling : from.previousElementSibling;
  next?.querySelector("a").focus();
}

function placeWith(id) {
  const end = endsIn(id || "", single)?.[0];
  return end && placeOf(`${end.s}.${end.number}`);
}

// Marks one line more or less: from the focused line on, or the first that is seen.
function mark(by) {
  follow(false);
  const id = document.activeElement.closest("#log-lines > li")?.id;
  const place = anchor() ? placeOf(keyOf(mover())) + by : placeWith(id) ?? topPlace();
  const row = rowAt(place);
  if (!row) return;
  setRange(anchor() || row, row);
  document.getElementById(idOf(row))?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && event.target === field) box.focus();
    return;
  }
  if (event.shiftKey && /^Arrow(Up|Down)$/.test(event.key)) {
    event.preventDefault();
    mark(event.key === "ArrowUp" ? -1 : 1);
    return;
  }
  if (event.key === "Escape" && anchor()) { clearMarks(); return; }
  if (event.key === "g" && event.timeStamp - g < 1000) { g = 0; follow(false); show(0); return; }
  if (event.key === "g") { g = event.timeStamp; return; }
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  act();
}, true);
