// Ticks beside the tasks: which of them are shown.

import { follow } from "./follow.js";
import { clear, showEnd } from "./list.js";
import { clearMarks } from "./marked.js";
import { counts, say, view } from "./page.js";
import { anchor, isOfOne } from "./range.js";
import { load } from "./rows.js";
import { search } from "./search.js";
import { showSize } from "./size.js";
import { close, reopen } from "./stream.js";

const rows = [...document.querySelectorAll("[data-numbers]")];
const numbersOf = (row) => row.dataset.numbers.split(" ").map(Number);

async function changed() {
  for (const row of rows) {
    const on = row.querySelector("input").checked;
    for (const number of numbersOf(row)) {
      if (on) view.hidden.delete(number);
      else view.hidden.add(number);
    }
  }
  const shown = new URL(location.href);
  if (view.hidden.size) shown.searchParams.set("hide", [...view.hidden].join(","));
  else shown.searchParams.delete("hide");
  history.replaceState(null, "", shown);
  if (anchor() && !isOfOne()) clearMarks();  // it would be of other lines now
  showTicked();
  close();
  for (const number of Object.keys(counts)) delete counts[number];
  try {
    clear();
    await load({});
  } catch (error) { say(error.message); reopen(); return; }
  showEnd();
  showSize();
  if (view.following) follow(true);
  if (view.q) { const text = view.q; view.q = ""; search(text); } else reopen();
}

// On a phone the tasks are folded away.
function showTicked() {
  const on = rows.filter((row) => row.querySelector("input").checked).length;
  const said = document.getElementById("log-ticked");
  if (said && rows.length) said.textContent = `${on} of ${rows.length} shown`;
}

function setAll(wanted) {
  for (const row of rows) row.querySelector("input").checked = wanted(row);
  changed();
}

export function toggleTask(index) {
  const check = rows[index]?.querySelector("input");
  if (!check) return;
  check.checked = !check.checked;
  changed();
}

export function ticks() {
  showTicked();
  for (const row of rows) row.querySelector("input").addEventListener("change", changed);
  for (const button of document.querySelectorAll("[data-tick]")) {
    button.hidden = false;
    const matching = (row) => !row.dataset.found || Number(row.dataset.found) > 0;
    button.addEventListener("click", () => setAll(button.dataset.tick === "all" ? () => true : matching));
  }
}
