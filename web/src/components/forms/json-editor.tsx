/** JSON editor with highlighting, bracket matching and error marks. A separate chunk. */
import { json } from '@codemirror/lang-json';
import { HighlightStyle, syntaxHighlighting, syntaxTree } from '@codemirror/language';
import { type Diagnostic, linter } from '@codemirror/lint';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { ReactNode } from 'react';
import { TextEditor, type EditorProps } from './text-editor';

const HIGHLIGHT_STYLE = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--code-title)' },
  { tag: tags.string, color: 'var(--code-string)' },
  { tag: tags.number, color: 'var(--code-number)' },
  { tag: [tags.bool, tags.null], color: 'var(--code-keyword)' },
]);

/** Position of the first syntax error. (The messages of JSON.parse name no position in some browsers.) */
function jsonErrors({ state }: EditorView): Diagnostic[] {
  const diagnostics: Diagnostic[] = [];
  if (!state.doc.toString().trim()) return diagnostics; // Empty text is no error.
  syntaxTree(state).iterate({
    enter: ({ type, from, to }) => {
      if (!type.isError || diagnostics.length) return;
      const start = Math.max(0, Math.min(from, state.doc.length - 1));
      diagnostics.push({
        from: start,
        to: Math.max(to, start + 1),
        severity: 'error',
        message: 'Invalid JSON.',
      });
    },
  });
  return diagnostics;
}

const JSON_EXTENSIONS: Extension = [
  json(),
  syntaxHighlighting(HIGHLIGHT_STYLE),
  linter(jsonErrors, { delay: 300 }),
  EditorView.lineWrapping,
];

export default function JsonEditor(props: EditorProps): ReactNode {
  return <TextEditor {...props} extensions={JSON_EXTENSIONS} />;
}
