// The editor in place of the textarea, which keeps the same text, as the form sends it.

import {
  Annotation, Decoration, EditorState, EditorView, StateEffect, StateField, autocompletion, bracketMatching,
  closeBrackets, closeBracketsKeymap, codeFolding, completionKeymap, defaultKeymap, drawSelection, foldGutter,
  foldKeymap, highlightActiveLine, history, historyKeymap, indentOnInput, indentWithTab, keymap, lineNumbers,
  searchKeymap,
} from "../../vendor/editor.js";
import { format as formatted } from "./config.js";
import { language } from "./language.js";
import { area, known, one } from "./page.js";
import { problems, show } from "./problems.js";
import { complete, help } from "./schema.js";

export const fromForm = Annotation.define();
const mark = StateEffect.define();
const marked = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) if (effect.is(mark)) return effect.value;
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

const listeners = { change: [], move: [] };
export const onChange = (act) => listeners.change.push(act);
export const onMove = (act) => listeners.move.push(act);

const followed = EditorView.updateListener.of((update) => {
  if (update.docChanged) {
    area.value = update.state.doc.toString();
    const isOurs = update.transactions.some((each) => each.annotation(fromForm));
    for (const act of listeners.change) act(area.value, isOurs);
  }
  if (!update.selectionSet || !update.view.hasFocus) return;
  for (const act of listeners.move) act(update.state.selection.main.head);
});

// Esc, then Tab leaves the editor; the editor itself minds that.
export const view = new EditorView({
  doc: area.value,
  parent: one("[data-editor]"),
  extensions: [
    EditorView.cspNonce.of(known.nonce),
    lineNumbers(), foldGutter({ openText: "▾", closedText: "▸" }), codeFolding(), history(), drawSelection(),
    highlightActiveLine(), indentOnInput(), bracketMatching(), closeBrackets(), language, problems, marked, help,
    followed,
    autocompletion({ override: [complete], icons: false }),
    EditorState.tabSize.of(4),
    EditorView.contentAttributes.of({
      "aria-label": "Job config. Escape, then Tab leaves the editor.", "aria-describedby": "plan", tabindex: "0",
      spellcheck: "false",
      autocorrect: "off", autocapitalize: "off",
    }),
    keymap.of([
      { key: "Mod-Enter", run: () => true },  // it submits, as on the rest of the page: longshore.js
      { key: "Mod-Shift-f", run: () => { format(); return true; } },
      ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...searchKeymap,
      indentWithTab,
    ]),
  ],
});
one("[data-editor]").classList.add("on");
area.tabIndex = -1;
area.setAttribute("aria-hidden", "true");
one("label[for=config]")?.addEventListener("click", () => view.focus());

export const caret = () => view.state.selection.main.head;
export const text = () => view.state.doc.toString();

// Applies edits [{"offset", "length", "content"}] of config.js. ``isOurs``: they come from the form.
export const change = (edits, isOurs = false) => {
  if (!edits.length) return;
  const changes = edits.map(({ offset, length, content }) => ({ from: offset, to: offset + length, insert: content }));
  view.dispatch({ changes, annotations: isOurs ? fromForm.of(true) : [], userEvent: "input" });
};

// Puts another text into the editor, which one undo takes back.
export const replace = (other) => {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: other }, userEvent: "input.replace" });
};

export const format = () => change(formatted(text()));
export const showProblems = (found) => view.dispatch({ effects: show.of(found) });

export const goTo = (line) => {
  const { from } = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  view.focus();
};
export const select = (offset) => {
  view.dispatch({ selection: { anchor: offset }, effects: EditorView.scrollIntoView(offset, { y: "center" }) });
  view.focus();
};

// Marks the line of a place in the text; -1 marks none.
export const markLine = (offset) => {
  const at = offset < 0 ? Decoration.none
    : Decoration.set([Decoration.line({ class: "at" }).range(view.state.doc.lineAt(offset).from)]);
  view.dispatch({ effects: mark.of(at) });
};
