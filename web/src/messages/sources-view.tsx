/** Where an answer comes from: numbered, each with the host that it leads to. */
import { FileText } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Source } from './part-groups';
import { address, exact, prose } from '@/lib/safe-text';

const CHIP = 'inline-flex max-w-full items-center gap-1.5 rounded-full border bg-surface px-2.5 py-0.5 text-xs text-muted';

export function SourcesView({ sources }: { sources: readonly Source[] }): ReactNode {
  return (
    <ol aria-label="Sources" className="flex flex-wrap gap-1.5">
      {sources.map((source, index) => (
        <li key={source.sourceId} className="max-w-full"><SourceChip source={source} number={index + 1} /></li>
      ))}
    </ol>
  );
}

function SourceChip({ source, number }: { source: Source; number: number }): ReactNode {
  const title = prose(source.title ?? '').slice(0, 300);
  const counted = <b className="text-ink">{number}</b>;
  if (source.type === 'source-document') {
    return (
      <span className={CHIP} title={exact(source.filename ?? source.mediaType)}>
        {counted}
        <FileText aria-hidden className="size-3.5 shrink-0" />
        <span dir="auto" className="truncate">{title || exact(source.filename ?? 'Document')}</span>
      </span>
    );
  }
  const to = address(source.url);
  const words = (
    <>
      {counted}
      {title && <span dir="auto" className="max-w-60 truncate">{title}</span>}
      <span dir="ltr" className="truncate text-faint">{to ? to.host : exact(source.url).slice(0, 100)}</span>
    </>
  );
  if (!to) return <span className={CHIP}>{words}</span>;
  return (
    <a href={to.href} target="_blank" rel="noopener noreferrer nofollow" className={`${CHIP} hover:border-strong-line hover:text-ink`}>
      {words}
    </a>
  );
}
