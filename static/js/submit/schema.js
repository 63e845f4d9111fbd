// What the schema knows of a place in the config: completion of fields and values, and help on hover.

import { hoverTooltip } from "../../vendor/editor.js";
import { at, placeOf, read } from "./config.js";
import { element, known } from "./page.js";

let whole = null;
const loaded = fetch("/submit/schema").then((answer) => (answer.ok ? answer.json() : null)).catch(() => null)
  .then((schema) => { whole = schema; return schema; });

const part = (path) => path.reduce((found, step) => {
  if (typeof step === "number") return found?.items;
  const more = found?.additionalProperties;
  return found?.properties?.[step] ?? (typeof more === "object" ? more : undefined);
}, whole);

export const helpOf = (path) => {
  const found = part(path);
  const limits = [
    found?.default !== undefined && `default ${JSON.stringify(found.default)}`,
    found?.minimum !== undefined && `from ${found.minimum}`,
    found?.maximum < 2 ** 31 - 1 && `to ${found.maximum}`,
    found?.enum && `one of ${found.enum.join(", ")}`,
  ].filter(Boolean).join(", ");
  return found?.description ? { text: found.description, limits } : null;
};

const fresh = { array: "[]", object: "{}", boolean: "false", integer: "1", string: '""' };
const start = (found) => {
  if (found.enum) return JSON.stringify(found.enum[0]);
  const plain = found.default ?? null;
  return plain !== null && typeof plain !== "object" ? JSON.stringify(plain) : fresh[found.type] ?? '""';
};

let images = null;
const imagesKnown = () => {
  images ??= fetch("/submit/images").then((answer) => (answer.ok ? answer.json() : { images: [] }))
    .catch(() => ({ images: [] })).then((found) => found.images);
  return images;
};
const values = async (path, found) => {
  const name = path.at(-1);
  if (name === "image" && path.length === 1)
    return (await imagesKnown()).map((one) => ({ label: one.name, detail: `nodes: ${one.nodes}` }));
  if (name === "virtualCluster") return known.vcs.map((label) => ({ label }));
  if (name === "gpuType") return known.gpuTypes.map((label) => ({ label }));
  if (found?.enum) return found.enum.map((label) => ({ label: String(label) }));
  if (found?.type === "boolean") return [{ label: "true", isWord: true }, { label: "false", isWord: true }];
  return [];
};
export { imagesKnown };

const keys = (text, place, offset) => {
  const around = place.path.slice(0, -1);
  const found = part(around);
  if (!found?.properties) return [];
  const there = new Set(Object.keys(at(read(text).value, around) ?? {}));
  const typed = place.previousNode;
  const mine = typed?.type === "property" || typed?.offset <= offset ? typed?.value : "";
  const behind = text.slice(Math.max(offset, (typed?.offset ?? 0) + (typed?.length ?? 0)));
  const hasValue = /^\s*:/.test(behind);
  const comma = /^\s*(?:\/\/[^\n]*\s*)*"/.test(behind) ? "," : "";
  const free = Object.entries(found.properties).filter(([name]) => name === mine || !there.has(name));
  return free.map(([name, field]) => ({
    label: name,
    detail: (found.required ?? []).includes(name) ? "needed" : field.type,
    info: field.description,
    boost: (found.required ?? []).includes(name) ? 2 : 0,
    apply: hasValue ? JSON.stringify(name) : `${JSON.stringify(name)}: ${start(field)}${comma}`,
  }));
};

export const complete = async (context) => {
  await loaded;
  if (!whole) return null;
  const text = context.state.doc.toString();
  const place = placeOf(text, context.pos);
  const node = place.previousNode;
  const isInside = node && node.offset <= context.pos && context.pos <= node.offset + node.length;
  const before = context.matchBefore(/[\w.$:/-]*$/);
  const from = isInside ? node.offset : before.from;
  const to = isInside ? node.offset + node.length : context.pos;
  if (!context.explicit && !isInside && before.from === before.to) return null;
  if (place.isAtPropertyKey) {
    const options = keys(text, place, context.pos).map((each) => ({ ...each, label: `"${each.label}"` }));
    return options.length ? { from, to, options } : null;
  }
  const found = await values(place.path, part(place.path));
  const options = found.map(({ label, detail, isWord }) => ({ label: isWord ? label : JSON.stringify(label), detail }));
  return options.length ? { from, to, options } : null;
};

export const help = hoverTooltip(async (view, offset) => {
  await loaded;
  const text = view.state.doc.toString();
  const place = placeOf(text, offset);
  const found = helpOf(place.path);
  const node = place.previousNode;
  if (!found || !node || offset < node.offset || offset > node.offset + node.length) return null;
  return {
    pos: node.offset,
    end: node.offset + node.length,
    create: () => {
      const dom = element("div", "ls-help");
      dom.append(element("b", "", String(place.path.at(-1))), element("div", "", found.text));
      if (found.limits) dom.append(element("div", "ls-muted", found.limits));
      return { dom };
    },
  };
});
export const ready = loaded;
