/** An editor for code of any language that the page can colour. A chunk of its own. */
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
  const more = useMemo((): Extension => [highlightSpecialChars(), highlightExtension(language)], [language]);
  return <TextEditor {...props} more={more} />;
}

/** After so long without a key the colours are found anew; until then they move with the text. In milliseconds. */
const HIGHLIGHT_DELAY_MS = 120;
const MAX_HIGHLIGHT_LENGTH = 100_000;

const highlightField = StateEffect.define<DecorationSet>();
const setHighlights = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (before, change) =>
    change.effects.reduce(
      (now, effect) => (effect.is(highlightField) ? effect.value : now),
      before.map(change.changes),
    ),
  provide: (field) => EditorView.decorations.from(field),
});

/** The colours of messages' code blocks, which know many languages; the editor has a grammar for JSON alone. */
function highlightExtension(language: string): Extension {
  const painter = ViewPlugin.fromClass(
    class {
      #view: EditorView;
      #timer: ReturnType<typeof setTimeout> | undefined;

      constructor(view: EditorView) {
        this.#view = view;
        this.#begin(0);
      }

      update({ docChanged }: ViewUpdate): void {
        if (docChanged) this.#begin(HIGHLIGHT_DELAY_MS);
      }

      destroy(): void {
        clearTimeout(this.#timer);
      }

      #begin(wait: number): void {
        clearTimeout(this.#timer);
        const timer = setTimeout(() => {
          import('@/components/markdown/highlighter').then(
            ({ highlightCode: highlighted }) => {
              if (this.#timer !== timer) return; // Somebody wrote on, or left.
              const text = this.#view.state.doc.toString();
              const spans = text.length <= MAX_HIGHLIGHT_LENGTH ? highlighted(text, language) : undefined;
              this.#view.dispatch({ effects: highlightField.of(buildDecorations(spans ?? [])) });
            },
            () => undefined, // Not to be fetched just now: code without colours is code.
          );
        }, wait);
        this.#timer = timer;
      }
    },
  );
  return [setHighlights, painter];
}

function buildDecorations(spans: readonly { kinds: readonly string[]; text: string }[]): DecorationSet {
  let at = 0;
  const found = spans.flatMap(({ kinds, text }) => {
    const [from, look] = [at, highlightClass(kinds)];
    at += text.length;
    return look && text ? [Decoration.mark({ class: look }).range(from, at)] : [];
  });
  return Decoration.set(found);
}
