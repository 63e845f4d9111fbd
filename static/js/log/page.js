// The log page: its parts, its logs, and what is known of them.
//
// Lines have a place among all lines that are shown, from 0. With one log a line's place follows from its number. With
// several, lines are in the order of their times, and a line that comes late moves those behind it.

export const root = document.getElementById("log");
export const part = (id) => document.getElementById(`log-${id}`);
const number = (name) => Number(root.dataset[name]) || 0;
const data = (id) => JSON.parse(document.getElementById(id).textContent);

export const box = part("box"), list = part("lines"), field = part("search").elements.q;
export const live = root.dataset.goesOn === "1";
export const sources = data("log-sources"), counts = data("log-counts"), attempts = data("log-attempts");
export const alone = root.dataset.alone === "1";  // one task: its lines need no name
export const single = sources.length === 1;
export const view = {
  total: number("total"), size: number("size"), first: number("first") - 1, next: root.dataset.next || "",
  following: false, unseen: 0, ended: !live, over: !live, hidden: new Set(data("log-hidden")), q: field.value.trim(),
};

export const clock = new Intl.DateTimeFormat("en-GB", {
  timeZone: root.dataset.zone, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
  hour12: false,
});
export const keyOf = (row) => `${row.s}.${row.number}`;
export const idOf = (row) => (single ? `L${row.number}` : `${sources[row.s].name}${row.number}`);

// A sentence above the lines, which may end with a link.
export function say(text, words = "", url = "") {
  const note = part("note");
  note.textContent = text;
  if (words) note.append(Object.assign(document.createElement("a"), { textContent: words, href: url }));
  note.hidden = !text;
}

export function address(path, values) {
  const url = new URL(path, location.href);
  if (view.hidden.size) url.searchParams.set("hide", [...view.hidden].join(","));
  if (view.q) url.searchParams.set("q", view.q);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  return url;
}

// Asks for rows; an error has the portal's own sentence.
export async function ask(values) {
  const answer = await fetch(address(root.dataset.rows, values), { headers: { Accept: "application/json" } });
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => ({}));
  throw new Error(told.message || `The portal answered ${answer.status}.`);
}
