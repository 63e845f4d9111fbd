// What of a line is shown: its time, and whether long ones are wrapped. The browser keeps the reader's choice.

import { refresh } from "./list.js";
import { box, part } from "./page.js";

function option(name, turned, on) {
  const label = part(name), check = label.querySelector("input");
  const set = (value) => {
    check.checked = value;
    turned(value);
    try { localStorage.setItem(`log-${name}`, value ? "1" : "0"); } catch { /* not allowed to keep it */ }
    refresh();
  };
  check.addEventListener("change", () => set(check.checked));
  label.hidden = false;
  let kept = null;
  try { kept = localStorage.getItem(`log-${name}`); } catch { /* not allowed to look */ }
  set(kept === null ? on : kept === "1");
  return () => set(!check.checked);
}

export const toggleWrap = option("wrap", (on) => box.classList.toggle("ls-long", !on), true);
export const toggleTime = option("time", (on) => box.classList.toggle("ls-untimed", !on), true);
