// Long lines are wrapped, or scroll sideways. The browser keeps the reader's choice.

import { box, part, view } from "./page.js";

const label = part("wrap"), check = label.querySelector("input");

export const toggleWrap = () => setWrap(!check.checked);

function setWrap(on) {
  check.checked = on;
  box.classList.toggle("ls-long", !on);
  try { localStorage.setItem("log-wrap", on ? "1" : "0"); } catch { /* not allowed to keep it */ }
  if (view.following) box.scrollTop = box.scrollHeight;
}

function kept() {
  try { return localStorage.getItem("log-wrap") !== "0"; } catch { return true; }  // not allowed to look
}

check.addEventListener("change", () => setWrap(check.checked));
label.hidden = false;
setWrap(kept());
