// Which of the files of an upload the .longshoreignore files leave out that are at the top of its folders.

import { post } from "./page.js";

const NAME = ".longshoreignore", AT_ONCE = 5000;
const rootOf = (path) => (path.includes("/") ? path.slice(0, path.indexOf("/") + 1) : "");

const ask = async (patterns, paths) => {
  const answer = await post("/submit/ignored", { patterns, paths: JSON.stringify(paths) });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok || answer.redirected) throw new Error(told.message ?? "The portal does not answer.");
  return told.left;
};

// [[path, file], ...] -> the paths that stay behind. Raises an Error that says why nobody knows.
export const ignored = async (files) => {
  const left = new Set();
  for (const [name, file] of files) {
    const root = rootOf(name);
    if (name !== root + NAME) continue;
    const patterns = await file.text();
    const mine = files.map(([path]) => path).filter((path) => path.startsWith(root) && path !== name);
    for (let at = 0; at < mine.length; at += AT_ONCE) {
      const some = mine.slice(at, at + AT_ONCE);
      for (const number of await ask(patterns, some.map((path) => path.slice(root.length)))) left.add(some[number]);
    }
  }
  return left;
};
