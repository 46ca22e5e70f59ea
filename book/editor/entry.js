// The editor of the served book: CodeMirror with C++, marks at lines, and a view of what has changed. `build.mjs` bundles it.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

// Colours are the stylesheet's, so that they follow the book's theme.
const colours = HighlightStyle.define([
    { tag: [tags.keyword, tags.modifier, tags.controlKeyword], class: "tok-keyword" },
    { tag: [tags.typeName, tags.standard(tags.typeName)], class: "tok-type" },
    { tag: [tags.number, tags.bool, tags.null], class: "tok-number" },
    { tag: [tags.string, tags.character, tags.special(tags.string)], class: "tok-string" },
    { tag: [tags.comment, tags.lineComment, tags.blockComment], class: "tok-comment" },
    { tag: [tags.processingInstruction, tags.meta, tags.macroName], class: "tok-meta" },
    { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], class: "tok-function" },
]);

// The control of a change: taking it back. There is nothing to accept.
function mergeControls(type, action) {
    const control = document.createElement(type === "reject" ? "button" : "span");
    if (type === "reject") {
        control.type = "button";
        control.textContent = "Take back";
        control.addEventListener("mousedown", action);
        control.addEventListener("keydown", (event) => event.key === "Enter" && action(event));
    }
    return control;
}

// An editor in `parent`. `onRun` and `onLeave` are what Ctrl-Enter and Escape do; `onChange` learns the text after each edit.
export function create({ parent, text, original, label, onRun, onLeave, onChange }) {
    const changes = new Compartment();
    const view = new EditorView({
        parent,
        state: EditorState.create({
            doc: text,
            extensions: [
                keymap.of([
                    { key: "Mod-Enter", run: () => (onRun(), true) },
                    // Tab indents; Escape leaves the editor, and Tab then goes on to the next control.
                    { key: "Escape", run: (editor) => (editor.contentDOM.blur(), onLeave(), true) },
                ]),
                lineNumbers(),
                history(),
                drawSelection(),
                highlightSpecialChars(),
                highlightActiveLine(),
                bracketMatching(),
                indentOnInput(),
                indentUnit.of("    "),
                lintGutter(),
                cpp(),
                syntaxHighlighting(colours),
                changes.of([]),
                keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
                EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off" }),
                EditorView.updateListener.of((update) => update.docChanged && onChange(update.state.doc.toString())),
            ],
        }),
    });
    const lineAt = (number) => view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
    return {
        text: () => view.state.doc.toString(),
        setText(to) {
            view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: to } });
        },
        // Replaces one stretch, such as a constant's value.
        replace(from, to, insert) {
            view.dispatch({ changes: { from, to, insert } });
        },
        // Marks lines: `[{ line, column, severity, message }]`.
        mark(findings) {
            const diagnostics = findings.map(({ line, severity, message }) => {
                const { from, to, text } = lineAt(line);
                const indent = text.length - text.trimStart().length;
                return { from: Math.min(from + indent, to), to, severity, message };
            });
            view.dispatch(setDiagnostics(view.state, diagnostics.sort((one, other) => one.from - other.from)));
        },
        // Shows what differs from the original in the text itself; each change can be taken back.
        showChanges(shown) {
            const merge = unifiedMergeView({ original, mergeControls, collapseUnchanged: { margin: 3, minSize: 8 } });
            view.dispatch({ effects: changes.reconfigure(shown ? merge : []) });
        },
        goTo(number) {
            const { from } = lineAt(number);
            view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
        },
        focus: () => view.focus(),
        destroy: () => view.destroy(),
    };
}
