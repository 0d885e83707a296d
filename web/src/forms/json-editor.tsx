/** An editor for JSON, with colours, brackets that match and errors marked where they are. A chunk of its own. */
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting, syntaxTree } from '@codemirror/language';
import { type Diagnostic, linter } from '@codemirror/lint';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, keymap, placeholder as placeholding } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef, type ReactNode, type RefObject } from 'react';
import { NONCE } from '@/lib/root';

export interface JsonEditorProps {
  text: string;
  onText: (text: string) => void;
  label: string;
  placeholder?: string;
  /** Whether somebody already writes where the editor will be. */
  writing?: RefObject<boolean>;
}

const LOOK = EditorView.theme({
  '&': { fontSize: '13px', backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', maxHeight: '20rem', overflow: 'auto', lineHeight: '1.5' },
  '.cm-content': { padding: '6px 0', caretColor: 'var(--ink)', minHeight: '20px' },
  '.cm-line': { padding: '0 10px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-placeholder': { color: 'var(--faint)', whiteSpace: 'pre-wrap' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: 'none' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: '1px solid var(--line)', borderRadius: '8px', color: 'var(--ink)' },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--bad)' },
});

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--code-title)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: tags.number, color: 'var(--code-number)' },
  { tag: [tags.bool, tags.null], color: 'var(--code-keyword)' },
]);

/** Where the text stops being JSON. (What JSON.parse says of it names no place in every browser.) */
function errors({ state }: EditorView): Diagnostic[] {
  const found: Diagnostic[] = [];
  if (!state.doc.toString().trim()) return found; // Nothing is said: no error.
  syntaxTree(state).iterate({
    enter: ({ type, from, to }) => {
      if (!type.isError || found.length) return;
      const start = Math.max(0, Math.min(from, state.doc.length - 1));
      found.push({ from: start, to: Math.max(to, start + 1), severity: 'error', message: 'Here it is not JSON.' });
    },
  });
  return found;
}

const ALWAYS: Extension[] = [
  history(),
  bracketMatching(),
  indentOnInput(),
  json(),
  syntaxHighlighting(COLOURS),
  linter(errors, { delay: 300 }),
  LOOK,
  EditorView.lineWrapping,
  // Ctrl+Enter belongs to the page around the editor (it runs a row).
  keymap.of([...defaultKeymap.filter(({ key }) => key !== 'Mod-Enter'), ...historyKeymap]),
  ...(NONCE ? [EditorView.cspNonce.of(NONCE)] : []),
];

export default function JsonEditor({ text, onText, label, placeholder = '', writing }: JsonEditorProps): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef({ text, onText });
  useEffect(() => {
    latest.current = { text, onText };
  }, [text, onText]);

  useEffect(() => {
    if (!place.current) return undefined;
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: latest.current.text,
        extensions: [
          ALWAYS,
          placeholding(placeholder),
          EditorView.contentAttributes.of({ 'aria-label': label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onText(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    if (writing?.current) {
      made.dispatch({ selection: { anchor: made.state.doc.length } });
      made.focus();
    }
    return () => made.destroy();
  }, [label, placeholder, writing]);

  useEffect(() => {
    const now = view.current?.state.doc.toString();
    if (now !== undefined && now !== text) view.current?.dispatch({ changes: { from: 0, to: now.length, insert: text } });
  }, [text]);

  return <div ref={place} />;
}
