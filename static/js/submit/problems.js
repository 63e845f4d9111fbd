// Problems under their lines, each with a button that mends it where the server knows how.

import { Decoration, EditorView, StateEffect, StateField, WidgetType } from "../../vendor/editor.js";
import { mend } from "./config.js";
import { button, element } from "./page.js";

export const show = StateEffect.define();
const bad = Decoration.line({ class: "bad" });

class Why extends WidgetType {
  constructor(problem) {
    super();
    this.problem = problem;
  }
  eq(other) { return JSON.stringify(other.problem) === JSON.stringify(this.problem); }
  ignoreEvent() { return true; }
  toDOM(view) {
    const node = element("div", "why");
    const said = element("div", "", `${this.problem.message} `);
    node.append(said);
    if (this.problem.mend) {
      const mends = button(this.problem.mend.says, `${this.problem.mend.says}, line ${this.problem.line}`);
      mends.addEventListener("click", () => apply(view, this.problem.mend));
      said.append(mends);
    }
    return node;
  }
}

export const apply = (view, given) => {
  const edits = mend(view.state.doc.toString(), given);
  const changes = edits.map(({ offset, length, content }) => ({ from: offset, to: offset + length, insert: content }));
  view.dispatch({ changes, userEvent: "input.mend" });
  view.focus();
};

const drawn = (state, problems) => {
  const marks = [];
  const lines = new Set();
  for (const problem of problems) {
    if (problem.line < 1 || problem.line > state.doc.lines) continue;
    const line = state.doc.line(problem.line);
    if (!lines.has(problem.line)) marks.push(bad.range(line.from));
    lines.add(problem.line);
    marks.push(Decoration.widget({ widget: new Why(problem), side: 1, block: true }).range(line.to));
  }
  return Decoration.set(marks, true);
};

export const problems = StateField.define({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) if (effect.is(show)) return drawn(transaction.state, effect.value);
    return marks.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});
