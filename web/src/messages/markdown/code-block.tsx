/** A block of code: its language, a way to copy it, its lines wrapped or not, its colours when it is done. */
import { WrapText } from 'lucide-react';
import { memo, useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { IconButton } from '@/ui/button';
import { CopyButton } from '@/ui/copy-button';
import { LongText } from '../long-text';
import { exact } from '@/lib/safe-text';
import type { Span } from './highlighter';
import { lookOf } from './looks';
import { useHighlight } from './use-highlight';

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
        <IconButton size="small" label="Wrap lines" aria-pressed={wrapped} className={classes(wrapped && 'text-accent')} onClick={() => setWrapped(!wrapped)}>
          <WrapText />
        </IconButton>
        <CopyButton label="Copy code" text={() => text} {...(onCopied ? { onCopied } : {})} />
      </figcaption>
      <pre className={classes('overflow-x-auto px-3 pb-3 font-mono text-[13px] leading-relaxed', wrapped && 'wrap-anywhere whitespace-pre-wrap')}>
        <code>{spans ? <Spans spans={spans} /> : <LongText text={text} tidy={exact} />}</code>
      </pre>
    </figure>
  );
}

const Spans = memo(function Spans({ spans }: { spans: readonly Span[] }): ReactNode {
  return spans.map(({ kinds, text }, index) => {
    const look = lookOf(kinds);
    // oxlint-disable-next-line react/no-array-index-key -- they are nothing but their order
    return look ? <span key={index} className={look}>{exact(text)}</span> : exact(text);
  });
});
