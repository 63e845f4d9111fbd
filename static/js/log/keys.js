// Keys of the log page. They are listed in components/_keys.html and below the log.

import { follow } from "./follow.js";
import { stepLine } from "./lines.js";
import { toLine } from "./loads.js";
import { box, field, view } from "./page.js";
import { step } from "./search.js";
import { toggleWrap } from "./wrap.js";

const keys = {
  "/": () => field.focus(), n: () => step(1), N: () => step(-1), f: () => follow(!view.following),
  w: toggleWrap, G: () => follow(true), j: () => toNext(1), k: () => toNext(-1),
};
let g = 0;

function toNext(by) {
  follow(false);
  stepLine(by);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && event.target === field) box.focus();
    return;
  }
  if (event.key === "g" && event.timeStamp - g < 1000) { g = 0; follow(false); toLine(1); return; }
  if (event.key === "g") { g = event.timeStamp; return; }
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  act();
}, true);
