// Keys of the log page. They are listed in components/_keys.html and below the log.

import { follow } from "./follow.js";
import { show } from "./list.js";
import { box, field, list, view } from "./page.js";
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

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape" && event.target === field) box.focus();
    return;
  }
  if (event.key === "g" && event.timeStamp - g < 1000) { g = 0; follow(false); show(0); return; }
  if (event.key === "g") { g = event.timeStamp; return; }
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  act();
}, true);
