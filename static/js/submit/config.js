// A config as text and as values. Every change is the smallest edit of the text, so comments, order and layout stay.

import * as jsonc from "../../vendor/editor.js";

const LAX = { allowTrailingComma: true, disallowComments: false };

// {"tree", "value", "error"}: error is the place of the first fault, or -1. A text with a fault still has a tree.
export const read = (text) => {
  const faults = [];
  const tree = jsonc.parseTree(text, faults, LAX);
  return { tree, value: tree ? jsonc.getNodeValue(tree) : undefined, error: faults.length ? faults[0].offset : -1 };
};

export const at = (value, path) => path.reduce((found, step) => found?.[step], value);
export const nodeAt = (tree, path) => tree && jsonc.findNodeAtLocation(tree, path);
export const pathOf = (pointer) => pointer.split("/").slice(1)
  .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
  .map((step) => (/^\d+$/.test(step) ? Number(step) : step));
export const placeOf = (text, offset) => jsonc.getLocation(text, offset);

const layout = (text) => {
  const indent = /\n([ \t]+)\S/.exec(text)?.[1] ?? "  ";
  const isTab = indent[0] === "\t";
  return { tabSize: isTab ? 4 : Math.min(indent.length, 8), insertSpaces: !isTab, eol: "\n" };
};
const options = (text, more = {}) => ({ formattingOptions: layout(text), ...more });

// The edits [{"offset", "length", "content"}] that put a value there; undefined removes it with its key.
export const set = (text, path, value) => {
  const empty = text.trim() ? text : "{}";
  const start = empty === text ? [] : [{ offset: 0, length: text.length, content: "{}" }];
  if (start.length) return [{ ...start[0], content: jsonc.applyEdits(empty, set(empty, path, value)) }];
  const { tree, value: whole } = read(text);
  if (value === undefined && !nodeAt(tree, path)) return [];
  const node = nodeAt(tree, path);
  if (node && value !== undefined && JSON.stringify(at(whole, path)) === JSON.stringify(value)) return [];
  if (node && value !== undefined && ["string", "number", "boolean", "null"].includes(node.type)
    && (value === null || typeof value !== "object"))
    return [{ offset: node.offset, length: node.length, content: JSON.stringify(value) }];
  return jsonc.modify(text, path, value, options(text));
};
export const insert = (text, path, index, value) =>
  Array.isArray(at(read(text).value, path))
    ? jsonc.modify(text, [...path, index], value, options(text, { isArrayInsertion: true }))
    : set(text, path, [value]);
export const rename = (text, path, name) => {
  const node = nodeAt(read(text).tree, path);
  const key = node?.parent?.type === "property" ? node.parent.children[0] : null;
  return key ? [{ offset: key.offset, length: key.length, content: JSON.stringify(name) }] : [];
};
export const format = (text) => jsonc.format(text, undefined, { ...layout(text), keepLines: false });

// The edits of a mend that the server proposes (base.core.errors.Mend).
export const mend = (text, given) => {
  if (given.kind === "insert") {
    const before = text.split("\n").slice(0, given.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    const line = text.slice(before).split("\n", 1)[0];
    const column = [...line].slice(0, given.column - 1).join("").length;
    return [{ offset: before + column, length: 0, content: given.value }];
  }
  const path = pathOf(given.path);
  if (given.kind === "rename") return rename(text, path, given.value);
  return set(text, path, given.kind === "remove" ? undefined : given.value);
};
