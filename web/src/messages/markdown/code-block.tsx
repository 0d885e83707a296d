/** A block of code: its language, a way to copy it, its lines wrapped or not, its colours when it is done. */
import { WrapText } from 'lucide-react';
import { memo, useState, type ReactNode } from 'react';
import { classes } from '@/lib/classes';
import { IconButton } from '@/ui/button';
import { CopyButton } from '@/ui/copy-button';
import { LongText } from '../long-text';
import { exact } from '../safe';
import type { Span } from './highlighter';
import { useHighlight } from './use-highlight';

interface Props {
  text: string;
  language: string;
  closed?: boolean;
}

export function CodeBlock({ text, language, closed = true }: Props): ReactNode {
  const [wrapped, setWrapped] = useState(false);
  const name = /^[\w+#.-]{1,30}/.exec(language)?.[0] ?? '';
  const spans = useHighlight(text, name.toLowerCase(), closed);
  return (
    <figure dir="ltr" className="overflow-hidden rounded-lg border bg-sunken">
      <figcaption className="flex h-8 items-center pr-1 pl-3 text-xs text-muted">
        <span className="grow truncate">{name || 'code'}</span>
        <IconButton size="small" label="Wrap lines" aria-pressed={wrapped} className={classes(wrapped && 'text-accent')} onClick={() => setWrapped(!wrapped)}>
          <WrapText />
        </IconButton>
        <CopyButton label="Copy code" text={() => text} />
      </figcaption>
      <pre className={classes('overflow-x-auto px-3 pb-3 font-mono text-[13px] leading-relaxed', wrapped && 'wrap-anywhere whitespace-pre-wrap')}>
        <code>{spans ? <Spans spans={spans} /> : <LongText text={text} tidy={exact} />}</code>
      </pre>
    </figure>
  );
}

const Spans = memo(function Spans({ spans }: { spans: readonly Span[] }): ReactNode {
  return spans.map(({ kinds, text }, index) => {
    const look = kinds.map((kind) => LOOKS[kind]).findLast(Boolean);
    // oxlint-disable-next-line react/no-array-index-key -- they are nothing but their order
    return look ? <span key={index} className={look}>{exact(text)}</span> : exact(text);
  });
});

const KEYWORD = 'text-(--code-keyword)';
const STRING = 'text-(--code-string)';
const NUMBER = 'text-(--code-number)';
const TITLE = 'text-(--code-title)';
const LOOKS: Record<string, string> = {
  'hljs-keyword': KEYWORD, 'hljs-type': KEYWORD, 'hljs-name': KEYWORD, 'hljs-selector-tag': KEYWORD, 'hljs-meta': KEYWORD, 'hljs-built_in': KEYWORD,
  'hljs-string': STRING, 'hljs-regexp': STRING, 'hljs-char': STRING, 'hljs-quote': STRING, 'hljs-addition': STRING,
  'hljs-number': NUMBER, 'hljs-literal': NUMBER, 'hljs-symbol': NUMBER, 'hljs-bullet': NUMBER, 'hljs-template-variable': NUMBER, 'hljs-deletion': NUMBER,
  'hljs-comment': 'text-(--code-comment) italic',
  'hljs-title': TITLE, 'hljs-section': TITLE, 'hljs-attr': TITLE, 'hljs-attribute': TITLE, 'hljs-property': TITLE, 'hljs-variable': TITLE,
  'hljs-selector-class': TITLE, 'hljs-selector-id': TITLE, 'hljs-function': TITLE, 'hljs-link': TITLE,
  'hljs-emphasis': 'italic', 'hljs-strong': 'font-semibold',
};
