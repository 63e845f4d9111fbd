// JSON with comments and trailing commas: its colours, where it folds, how deep a line stands.

import {
  HighlightStyle, StreamLanguage, foldService, indentUnit, syntaxHighlighting, tags,
} from "../../vendor/editor.js";

const WORD = /^(?:true|false|null)\b/, NUMBER = /^-?\d[\d.eE+-]*/;
const TOKEN = /"(?:[^"\\\n]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\/|[{}[\]]/g;
const jsonc = StreamLanguage.define({
  name: "jsonc",
  startState: () => ({ isComment: false, depth: 0 }),
  token(stream, state) {
    if (state.isComment || stream.match("/*")) {
      state.isComment = !stream.match(/^.*?\*\//);
      if (state.isComment) stream.skipToEnd();
      return "blockComment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match(/^\/\/.*/)) return "lineComment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"(?=\s*:)/)) return "propertyName";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(WORD)) return "atom";
    if (stream.match(NUMBER)) return "number";
    const sign = stream.next();
    if ("{[".includes(sign)) state.depth += 1;
    if ("}]".includes(sign)) state.depth -= 1;
    return "{}[]".includes(sign) ? "bracket" : null;
  },
  indent: (state, after, context) =>
    Math.max(0, state.depth - (/^\s*[}\]]/.test(after) ? 1 : 0)) * context.unit,
  languageData: {
    commentTokens: { line: "//" },
    closeBrackets: { brackets: ["{", "[", '"'] },
    indentOnInput: /^\s*[}\]]$/,
  },
});

const colours = HighlightStyle.define([
  { tag: tags.comment, class: "c" },
  { tag: tags.propertyName, class: "k" },
  { tag: tags.string, class: "s" },
  { tag: [tags.number, tags.atom], class: "n" },
]);

// A line that ends with a bracket folds to the bracket that closes it.
const folds = foldService.of((state, start, end) => {
  const line = state.sliceDoc(start, end).replace(/\/\/.*$/, "").trimEnd();
  if (!/[{[]$/.test(line)) return null;
  let depth = 0;
  for (const token of state.sliceDoc(start + line.length - 1).matchAll(TOKEN)) {
    if (/^[{[]/.test(token[0])) depth += 1;
    else if (/^[}\]]/.test(token[0])) depth -= 1;
    if (depth === 0) return { from: start + line.length, to: start + line.length - 1 + token.index };
  }
  return null;
});

export const language = [jsonc, syntaxHighlighting(colours), folds, indentUnit.of("  ")];
