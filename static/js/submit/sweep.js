// The parameters of a sweep in the form. Values are written as people write them: 1e-4 stays 1e-4 in the JSON.

import { nodeAt, read, rename, set } from "./config.js";
import { change, text } from "./editor.js";
import { onDraw, state } from "./form.js";
import { drawList, field, remover } from "./lists.js";
import { one } from "./page.js";

const GRID = ["extras", "sweep", "grid"];
const box = one("[data-parameters]");
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

const rawOf = (typed) => {
  const trimmed = typed.trim();
  if (trimmed.startsWith("[")) return trimmed;
  if (/\.\.|^log\(/.test(trimmed)) return JSON.stringify(trimmed);
  const values = trimmed.split(",").map((each) => each.trim()).filter(Boolean);
  return `[${values.map((each) => (NUMBER.test(each) ? each : JSON.stringify(each))).join(", ")}]`;
};
const shownOf = (node) => {
  if (node?.type === "string") return node.value;
  const items = node?.children ?? [];
  const hasOdd = items.some((item) => !["string", "number"].includes(item.type) || /[,"[]/.test(String(item.value)));
  if (hasOdd) return text().slice(node.offset, node.offset + node.length);
  const raw = (item) => text().slice(item.offset, item.offset + item.length);
  return items.map((item) => (item.type === "string" ? item.value : raw(item))).join(", ");
};
const write = (name, typed) => {
  const node = nodeAt(read(text()).tree, [...GRID, name]);
  if (node) change([{ offset: node.offset, length: node.length, content: rawOf(typed) }], true);
};

onDraw(() => {
  const grid = state.value.extras?.sweep?.grid;
  const names = grid && typeof grid === "object" ? Object.keys(grid) : [];
  drawList(box, names.map((name, at) => [
    field(name, `Name of parameter ${at + 1}`, "ls-mono", (typed) => change(rename(text(), [...GRID, name], typed))),
    field(shownOf(nodeAt(state.tree, [...GRID, name])), `Values of ${name}`, "ls-mono", (typed) => write(name, typed)),
    remover(`parameter ${name}`, () =>
      change(set(text(), names.length > 1 ? [...GRID, name] : ["extras", "sweep"], undefined))),
  ]));
  const isList = Array.isArray(state.value.extras?.sweep?.list);
  one("[data-sweep-count]").textContent = isList ? "This sweep is a list: change it in the JSON." : "";
});
one("[data-add-parameter]").addEventListener("click", () => {
  const grid = state.value.extras?.sweep?.grid ?? {};
  const names = ["lr", "seed", "size", ...Object.keys(grid).map((_, at) => `p${at + 1}`)];
  const name = names.find((each) => !(each in grid));
  change(set(text(), [...GRID, name], [1, 2]));
  box.querySelector("input:nth-last-of-type(1)")?.select();
});
