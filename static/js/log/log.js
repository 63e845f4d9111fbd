// Starts the log page: its lines, links to lines, and where it begins.

import { follow, showFollow } from "./follow.js";
import "./keys.js";
import { clear, show, showEnd } from "./list.js";
import { isExtending } from "./marked.js";
import "./only.js";
import { list, live, part, root, say, single, view } from "./page.js";
import { anchor, endsIn, setRange } from "./range.js";
import { load } from "./rows.js";
import { findRow, searchField } from "./search.js";
import { openGap } from "./shown.js";
import { showSize } from "./size.js";
import { open } from "./stream.js";
import { ticks } from "./tasks.js";

// Leads to the lines that the address names, and marks them (range.js).
async function toHash() {
  const ends = endsIn(decodeURIComponent(location.hash.slice(1)), single);
  if (ends === null) say("This link is to a line of a log that is not shown here.");
  if (!ends?.length) return false;
  follow(false);
  const rows = [];
  for (const end of [...ends.slice(1), ends[0]]) {  // the first one last: what is around it is to be seen
    const row = await findRow(end.s, end.number);
    if (!row) return true;
    rows.unshift(row);
  }
  setRange(...rows);
  openGap({ from: rows[0].place - 3, to: rows[0].place + 4 });  // where only lines around matches are shown
  show(rows[0].place);
  return true;
}
addEventListener("hashchange", toHash);
list.addEventListener("click", async (event) => {
  const link = event.target.closest("li > a");
  if (!link) return;
  event.preventDefault();
  getSelection().removeAllRanges();  // a click with Shift selects text
  const [end] = endsIn(link.hash.slice(1), single), isMore = (event.shiftKey || isExtending()) && anchor();
  const row = await findRow(end.s, end.number);
  if (!row) return;
  follow(false);
  setRange(isMore ? anchor() : row, row);
});

async function begin() {
  clear();
  prepare();
  const moved = root.dataset.moved === "1";
  try {
    if (view.total) await load(moved ? { from: view.first + 1 } : {});
  } catch (error) { say(error.message); }
  if (await toHash()) { /* a link to lines */ }
  else if (moved) show(view.first + Math.floor(part("box").clientHeight / 40));
  else {
    showEnd();
    view.following = live;
  }
  showFollow();
  showSize();
  searchField(Boolean(anchor()));
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
