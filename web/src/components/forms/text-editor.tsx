/** CodeMirror as a form field, shared by the JSON and code editors. */
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { bracketMatching, indentOnInput } from '@codemirror/language';
import { EditorState, type Extension } from '@codemirror/state';
import { EditorView, keymap, placeholder as placeholderExtension } from '@codemirror/view';
import { useEffect, useRef, type ReactNode, type RefObject } from 'react';
import { CSP_NONCE } from '@/lib/server-path';

export interface EditorProps {
  /** Lines separated by line feeds. */
  text: string;
  onText: (text: string) => void;
  label: string;
  placeholder?: string;
  /** Whether the field that stands in while the editor loads has the focus; the editor takes it over. */
  hasFocusRef?: RefObject<boolean>;
}

const EDITOR_THEME = EditorView.theme({
  '&': { fontSize: '13px', backgroundColor: 'transparent', color: 'var(--ink)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', maxHeight: '20rem', overflow: 'auto', lineHeight: '1.5' },
  '.cm-content': { padding: '6px 0', caretColor: 'var(--ink)', minHeight: '20px' },
  '.cm-line': { padding: '0 10px' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-placeholder': { color: 'var(--faint)', whiteSpace: 'pre-wrap' },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-soft)', outline: 'none' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    color: 'var(--ink)',
  },
  '.cm-diagnostic-error': { borderLeft: '3px solid var(--bad)' },
});

const BASE_EXTENSIONS: Extension[] = [
  history(),
  bracketMatching(),
  indentOnInput(),
  EDITOR_THEME,
  // Ctrl+Enter belongs to the page around the editor, which runs a row.
  keymap.of([...defaultKeymap.filter(({ key }) => key !== 'Mod-Enter'), ...historyKeymap]),
  ...(CSP_NONCE ? [EditorView.cspNonce.of(CSP_NONCE)] : []),
];

/** `extensions`: those for this kind of text; must be stable between renders. */
export function TextEditor({
  text,
  onText,
  label,
  placeholder = '',
  hasFocusRef,
  extensions,
}: EditorProps & { extensions: Extension }): ReactNode {
  const container = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const latest = useRef({ text, onText });
  useEffect(() => {
    latest.current = { text, onText };
  }, [text, onText]);

  useEffect(() => {
    if (!container.current) return undefined;
    const editor = new EditorView({
      parent: container.current,
      state: EditorState.create({
        doc: latest.current.text,
        extensions: [
          BASE_EXTENSIONS,
          extensions,
          placeholderExtension(placeholder),
          EditorView.contentAttributes.of({ 'aria-label': label }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onText(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    if (hasFocusRef?.current) {
      editor.dispatch({ selection: { anchor: editor.state.doc.length } });
      editor.focus();
    }
    return () => editor.destroy();
  }, [label, placeholder, hasFocusRef, extensions]);

  useEffect(() => {
    const current = view.current?.state.doc.toString();
    if (current !== undefined && current !== text) view.current?.dispatch({ changes: changedRange(current, text) });
  }, [text]);

  return <div ref={container} />;
}

export function changedRange(before: string, after: string): { from: number; to: number; insert: string } {
  const minLength = Math.min(before.length, after.length);
  let from = 0;
  while (from < minLength && before[from] === after[from]) from += 1;
  let suffix = 0;
  while (suffix < minLength - from && before[before.length - 1 - suffix] === after[after.length - 1 - suffix])
    suffix += 1;
  return { from, to: before.length - suffix, insert: after.slice(from, after.length - suffix) };
}
