/** Code block with language, copy button, line wrapping and syntax highlighting. */
import { WrapText } from 'lucide-react';
import { memo, useState, type ReactNode, useEffect } from 'react';
import { IconButton, CopyButton } from '@/components/button';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { safeExact } from '@/lib/safe-text';
import type { Span } from './highlighter';

interface Props {
  text: string;
  language: string;
  closed?: boolean;
  onCopied?: () => void;
}

export function CodeBlock({ text, language, closed = true, onCopied }: Props): ReactNode {
  const [wrapped, setWrapped] = useState(false);
  const name = /^[\w+#.-]{1,30}/.exec(language)?.[0] ?? '';
  const spans = useHighlight(text, name.toLowerCase(), closed);
  return (
    <figure dir="ltr" className="overflow-hidden rounded-lg border bg-sunken">
      <figcaption className="flex h-8 items-center pr-1 pl-3 text-xs text-muted">
        <span className="grow truncate">{name || 'code'}</span>
        <IconButton
          size="small"
          label="Wrap lines"
          aria-pressed={wrapped}
          className={cn(wrapped && 'text-accent')}
          onClick={() => setWrapped(!wrapped)}
        >
          <WrapText />
        </IconButton>
        <CopyButton label="Copy code" text={() => text} {...(onCopied ? { onCopied } : {})} />
      </figcaption>
      <pre
        className={cn(
          'overflow-x-auto px-3 pb-3 font-mono text-[13px] leading-relaxed',
          wrapped && 'wrap-anywhere whitespace-pre-wrap',
        )}
      >
        <code>{spans ? <Spans spans={spans} /> : <LongText text={text} sanitize={safeExact} />}</code>
      </pre>
    </figure>
  );
}

const Spans = memo(function Spans({ spans }: { spans: readonly Span[] }): ReactNode {
  return spans.map(({ kinds, text }, index) => {
    const className = highlightClass(kinds);
    return className ? (
      // oxlint-disable-next-line react/no-array-index-key -- the spans have no identity but their order
      <span key={index} className={className}>
        {safeExact(text)}
      </span>
    ) : (
      safeExact(text)
    );
  });
});

const MAX_HIGHLIGHT_LENGTH = 100_000;

/** Highlight code when the browser is idle; undefined until then, and for long code. */
export function useHighlight(code: string, language: string, isComplete: boolean): readonly Span[] | undefined {
  const [result, setResult] = useState<{ code: string; language: string; spans: readonly Span[] | undefined }>();
  const isEnabled = isComplete && language !== '' && code.length <= MAX_HIGHLIGHT_LENGTH;
  useEffect(() => {
    if (!isEnabled) return undefined;
    let isCancelled = false;
    const cancel = whenIdle(() => {
      import('./highlighter').then(
        ({ highlightCode }) => !isCancelled && setResult({ code, language, spans: highlightCode(code, language) }),
        () => undefined, // The highlighter could not be loaded: show plain code.
      );
    });
    return () => {
      isCancelled = true;
      cancel();
    };
  }, [code, language, isEnabled]);
  return isEnabled && result?.code === code && result.language === language ? result.spans : undefined;
}

/** Run a function when the browser is idle (after 50 ms in Safari); returns a function that cancels it. */
function whenIdle(run: () => void): () => void {
  if (typeof requestIdleCallback === 'function') {
    const id = requestIdleCallback(run, { timeout: 2000 });
    return () => cancelIdleCallback(id);
  }
  const timer = setTimeout(run, 50);
  return () => clearTimeout(timer);
}

const KEYWORD = 'text-(--code-keyword)';
const STRING = 'text-(--code-string)';
const NUMBER = 'text-(--code-number)';
const TITLE = 'text-(--code-title)';
const HIGHLIGHT_CLASSES: Record<string, string> = {
  'hljs-keyword': KEYWORD,
  'hljs-type': KEYWORD,
  'hljs-name': KEYWORD,
  'hljs-selector-tag': KEYWORD,
  'hljs-meta': KEYWORD,
  'hljs-built_in': KEYWORD,
  'hljs-string': STRING,
  'hljs-regexp': STRING,
  'hljs-char': STRING,
  'hljs-quote': STRING,
  'hljs-addition': STRING,
  'hljs-number': NUMBER,
  'hljs-literal': NUMBER,
  'hljs-symbol': NUMBER,
  'hljs-bullet': NUMBER,
  'hljs-template-variable': NUMBER,
  'hljs-deletion': NUMBER,
  'hljs-comment': 'text-(--code-comment) italic',
  'hljs-title': TITLE,
  'hljs-section': TITLE,
  'hljs-attr': TITLE,
  'hljs-attribute': TITLE,
  'hljs-property': TITLE,
  'hljs-variable': TITLE,
  'hljs-selector-class': TITLE,
  'hljs-selector-id': TITLE,
  'hljs-function': TITLE,
  'hljs-link': TITLE,
  'hljs-emphasis': 'italic',
  'hljs-strong': 'font-semibold',
};

/** CSS classes of the innermost kind that has any. */
export const highlightClass = (kinds: readonly string[]): string | undefined =>
  kinds.map((kind) => HIGHLIGHT_CLASSES[kind]).findLast(Boolean);
