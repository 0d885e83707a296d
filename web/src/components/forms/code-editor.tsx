/** Code editor with syntax highlighting. A separate chunk. */
import { StateEffect, StateField, type Extension } from '@codemirror/state';
import {
  Decoration,
  EditorView,
  ViewPlugin,
  highlightSpecialChars,
  type DecorationSet,
  type ViewUpdate,
} from '@codemirror/view';
import { useMemo, type ReactNode } from 'react';
import { highlightClass } from '@/components/markdown/code-block';
import { TextEditor, type EditorProps } from './text-editor';

export default function CodeEditor({ language, ...props }: EditorProps & { language: string }): ReactNode {
  const extensions = useMemo((): Extension => [highlightSpecialChars(), highlightExtension(language)], [language]);
  return <TextEditor {...props} extensions={extensions} />;
}

/** Delay after the last key press until highlighting is recomputed; until then marks move with the text. */
const HIGHLIGHT_DELAY_MS = 120;
const MAX_HIGHLIGHT_LENGTH = 100_000;

const setHighlights = StateEffect.define<DecorationSet>();
const highlightField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (decorations, transaction) =>
    transaction.effects.reduce(
      (current, effect) => (effect.is(setHighlights) ? effect.value : current),
      decorations.map(transaction.changes),
    ),
  provide: (field) => EditorView.decorations.from(field),
});

/** Uses the highlighter of code blocks, which knows many languages; CodeMirror only gets a grammar for JSON. */
function highlightExtension(language: string): Extension {
  const plugin = ViewPlugin.fromClass(
    class {
      #view: EditorView;
      #timer: ReturnType<typeof setTimeout> | undefined;

      constructor(view: EditorView) {
        this.#view = view;
        this.#schedule(0);
      }

      update({ docChanged }: ViewUpdate): void {
        if (docChanged) this.#schedule(HIGHLIGHT_DELAY_MS);
      }

      destroy(): void {
        clearTimeout(this.#timer);
      }

      #schedule(delayMs: number): void {
        clearTimeout(this.#timer);
        const timer = setTimeout(() => {
          import('@/components/markdown/highlighter').then(
            ({ highlightCode }) => {
              if (this.#timer !== timer) return; // The text changed, or the editor is gone.
              const text = this.#view.state.doc.toString();
              const spans = text.length <= MAX_HIGHLIGHT_LENGTH ? highlightCode(text, language) : undefined;
              this.#view.dispatch({ effects: setHighlights.of(buildDecorations(spans ?? [])) });
            },
            () => undefined, // The highlighter could not be loaded: show plain code.
          );
        }, delayMs);
        this.#timer = timer;
      }
    },
  );
  return [highlightField, plugin];
}

function buildDecorations(spans: readonly { kinds: readonly string[]; text: string }[]): DecorationSet {
  let offset = 0;
  const decorations = spans.flatMap(({ kinds, text }) => {
    const [from, className] = [offset, highlightClass(kinds)];
    offset += text.length;
    return className && text ? [Decoration.mark({ class: className }).range(from, offset)] : [];
  });
  return Decoration.set(decorations);
}
