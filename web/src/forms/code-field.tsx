/** A text that is code. Its line ends stay as they came: an editor knows only line feeds, the code may be another system's. */
import { lazy, Suspense, useRef, type ReactNode } from 'react';
import { TextArea } from '@/ui/fields';
import { endedAs, withFeeds } from './line-ends';

const CodeEditor = lazy(() => import('./code-editor'));

interface Props {
  text: string;
  onText: (text: string) => void;
  label: string;
  language: string;
  placeholder: string;
}

export function CodeField({ text, onText, label, language, placeholder }: Props): ReactNode {
  const writing = useRef(false);
  const shown = withFeeds(text);
  const write = (next: string) => {
    if (next !== shown) onText(endedAs(text, next));
  };
  return (
    <div className="overflow-hidden rounded-lg border bg-surface transition-colors focus-within:border-accent hover:border-strong-line">
      <Suspense
        fallback={
          // One may write before the editor is there; it goes on where that ended.
          <TextArea
            rows={3}
            aria-label={label}
            value={shown}
            placeholder={placeholder}
            onChange={(event) => write(event.target.value)}
            onFocus={() => (writing.current = true)}
            onBlur={() => (writing.current = false)}
            className="block !border-0 font-mono text-[13px] whitespace-pre focus-visible:outline-none"
          />
        }
      >
        <CodeEditor text={shown} onText={write} label={label} language={language} placeholder={placeholder} writing={writing} />
      </Suspense>
    </div>
  );
}
