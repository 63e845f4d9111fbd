// The log page: its parts, and what of the log it shows.
//
// The window is a run of line numbers without a gap, from view.first to view.last. Lines come from the stream while the
// window reaches the end of the log (view.atEnd), else from the server when the reader scrolls there.

export const root = document.getElementById("log");
export const part = (id) => document.getElementById(`log-${id}`);
export const number = (name) => Number(root.dataset[name]) || 0;
export const box = part("box"), list = part("lines"), field = part("search").elements.q;
export const live = root.dataset.live === "1";
export const view = {
  first: number("first"), last: number("last"), total: number("total"), size: number("size"),
  atEnd: number("last") >= number("total"), following: false, unseen: 0, loading: false, ended: !live,
};

export function say(text) {
  const note = part("note");
  note.textContent = text;
  note.hidden = !text;
}

export async function ask(url, values) {
  const asked = new URL(url, location.href);
  for (const [name, value] of Object.entries(values)) asked.searchParams.set(name, value);
  const answer = await fetch(asked, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`The portal answered ${answer.status}.`);
  return answer.json();
}
