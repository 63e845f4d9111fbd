// The form beside the JSON: each field shows the value at its place in the text, and changes nothing else there.

import { at, nodeAt, pathOf, placeOf, read, set } from "./config.js";
import { caret, change, markLine, onChange, onMove, select, text } from "./editor.js";
import { all, button, element, form, known, one } from "./page.js";

const box = one("[data-form]");
export const state = { role: 0, value: {}, tree: null, since: 0, good: "" };
const drawers = [];
export const onDraw = (act) => { drawers.push(act); };

// Where a field is: data-path is a JSON pointer, in which * stands for the role that is shown.
export const pathOfField = (field) => pathOf(field.dataset.path.replace("*", state.role));

const kinds = {
  text: { shown: (value) => value ?? "", read: (typed) => typed || undefined },
  needed: { shown: (value) => value ?? "", read: (typed) => typed },
  number: {
    shown: (value) => value ?? "",
    read: (typed) => (typed.trim() === "" ? undefined : /^-?\d{1,15}$/.test(typed.trim()) ? Number(typed) : typed),
  },
  hours: {
    shown: (value) => (Number(value) > 0 ? String(Math.round(value / 36) / 100) : ""),
    read: (typed) => (Number(typed) > 0 ? Math.round(Number(typed) * 3600) : undefined),
  },
  flag: { read: (_, field) => (field.checked ? true : undefined) },
};

const draw = (field) => {
  const value = at(state.value, pathOfField(field));
  if (field.type === "checkbox") { field.checked = value === true || value === "true"; return; }
  const shown = String(kinds[field.dataset.kind].shown(typeof value === "object" ? "" : value));
  if (field.tagName === "SELECT" && shown && ![...field.options].some((option) => option.value === shown))
    field.add(new Option(shown, shown));
  if (field.value !== shown) field.value = shown;
};

export const edit = (path, value) => change(set(text(), path, value), true);

const lock = (isLocked) => {
  for (const part of all("[data-locks]", box)) part.disabled = isLocked;
  one("[data-waits]").hidden = !isLocked;
  one("[data-sync]").hidden = isLocked;
};
const show = (isOurs) => {
  const found = read(text());
  const isRead = found.error < 0 && found.value && typeof found.value === "object" && !Array.isArray(found.value);
  if (!isRead && text().trim()) {
    state.since ||= Date.now();
    one("[data-waits-at]").dataset.ago = String(state.since);
    lock(true);
    return;
  }
  Object.assign(state, { value: found.value ?? {}, tree: found.tree, since: 0, good: text() });
  lock(false);
  for (const act of drawers) act(isOurs);
  drawFields(isOurs);
};
const drawFields = (isOurs) => {
  for (const field of all("[data-path]", box)) if (!isOurs || field !== document.activeElement) draw(field);
};
export const redraw = () => show(false);

box.addEventListener("input", ({ target }) => {
  if (!target.dataset.path) return;
  edit(pathOfField(target), kinds[target.dataset.kind].read(target.value, target));
});
box.addEventListener("keydown", (event) => {  // Enter in a field would press the first button of the page
  const isPlain = event.key === "Enter" && !event.ctrlKey && !event.metaKey;
  if (isPlain && event.target.tagName === "INPUT") event.preventDefault();
});
box.addEventListener("focusin", ({ target }) => {
  const node = target.dataset.path && nodeAt(state.tree, pathOfField(target));
  markLine(node ? node.offset : -1);
});
box.addEventListener("focusout", () => { markLine(-1); drawFields(false); });

const fieldAt = (offset) => {
  const path = placeOf(text(), offset).path;
  const fits = (field) => JSON.stringify(pathOfField(field)) === JSON.stringify(path);
  return all("[data-path]", box).find(fits);
};
onMove((offset) => {
  for (const field of all(".ls-at", box)) field.classList.remove("ls-at");
  fieldAt(offset)?.classList.add("ls-at");
});
// Ctrl J goes from a field to its line, and back.
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "j" || !(event.ctrlKey || event.metaKey) || !form.contains(event.target)) return;
  event.preventDefault();
  if (event.target.dataset.path) {
    const node = nodeAt(state.tree, pathOfField(event.target));
    if (node) select(node.offset);
  } else (fieldAt(caret()) ?? one("[data-path]", box)).focus();
});
one("[data-back]").addEventListener("click", () => {
  change([{ offset: 0, length: text().length, content: state.good }]);
});
// Below a field stands what is wrong with it, and the button that mends it.
const tell = (field, problem) => {
  const id = `${field.id}-why`;
  document.getElementById(id)?.remove();
  field.removeAttribute("aria-describedby");
  if (!problem || !field.id) return;
  const why = element("div", "ls-small ls-wrong", `${problem.message} `);
  why.id = id;
  if (problem.mend) {
    const mends = button(problem.mend.says, `${problem.mend.says}, ${field.id}`);
    mends.dataset.mend = JSON.stringify(problem.mend);
    why.append(mends);
  }
  field.after(why);
  field.setAttribute("aria-describedby", id);
};
document.addEventListener("ls:checked", ({ detail }) => {
  for (const field of all("[data-path]", box)) {
    const path = field.dataset.path.replace("*", state.role);
    const found = detail.find((each) => each.path === path);
    field.classList.toggle("is-invalid", Boolean(found));
    field.setAttribute("aria-invalid", String(Boolean(found)));
    tell(field, found);
  }
});

// Form, both or JSON: as chosen last; a phone has room for one.
const views = all("[data-view]");
const turn = (name) => {
  form.dataset.shown = name;
  for (const each of views) each.setAttribute("aria-pressed", String(each.dataset.view === name));
};
for (const each of views) each.addEventListener("click", () => {
  localStorage.setItem("submit-view", each.dataset.view);
  turn(each.dataset.view);
});
turn(localStorage.getItem("submit-view") ?? (matchMedia("(max-width: 47.99rem)").matches ? "form" : "both"));
for (const [id, names] of [["gpu-types", known.gpuTypes]])
  one(`#${id}`).replaceChildren(...names.map((name) => new Option(name, name)));

onChange((_, isOurs) => show(isOurs));
queueMicrotask(() => show(false));
