// Starts the log page: its lines, links to lines, and where it begins.

import { follow, showFollow } from "./follow.js";
import "./keys.js";
import { clear, show, showEnd } from "./list.js";
import { list, live, part, root, say, single, sources, view } from "./page.js";
import { load } from "./rows.js";
import { searchField, toRow } from "./search.js";
import { showSize } from "./size.js";
import { open } from "./stream.js";
import { ticks } from "./tasks.js";

// #L12 of one log, or #worker-0.1.o12: task, attempt, o or e for stdout or stderr, line.
function toHash() {
  const text = decodeURIComponent(location.hash.slice(1));
  const [, name, line] = /^(L|.+\.\d+\.[oe])(\d{1,12})$/.exec(text) || [];
  if (!line) return false;
  const source = name === "L" ? (single ? 0 : -1) : sources.findIndex((one) => one.name === name);
  if (source < 0) { say("This link is to a line of a log that is not shown here."); return false; }
  follow(false);
  toRow(source, Number(line));
  return true;
}
addEventListener("hashchange", toHash);
list.addEventListener("click", (event) => {
  const link = event.target.closest("li > a");
  if (!link) return;
  event.preventDefault();
  history.replaceState(null, "", link.hash);
  toHash();
});

async function begin() {
  clear();
  prepare();
  const moved = root.dataset.moved === "1";
  try {
    if (view.total) await load(moved ? { from: view.first + 1 } : {});
  } catch (error) { say(error.message); }
  if (toHash()) { /* a link to a line */ } else if (moved) show(view.first + Math.floor(part("box").clientHeight / 40));
  else {
    showEnd();
    view.following = live;
  }
  showFollow();
  showSize();
  searchField();
  open();
}

function prepare() {
  for (const id of ["older", "newer"]) part(id).hidden = true;
  part("box").classList.add("ls-virtual");
  part("state").textContent = view.ended ? "All there is" : "Connecting";
}

part("follow").addEventListener("click", () => follow(!view.following));
ticks();
begin();
