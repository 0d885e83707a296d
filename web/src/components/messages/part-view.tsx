/** Views of message parts. Parts are new objects with every token, so compare their content. */
import { ShieldAlert, FileText, Info, TriangleAlert } from 'lucide-react';
import { memo, type ReactNode, useEffect, useRef, useState, lazy, Suspense } from 'react';
import { Disclosure } from '@/components/collapsible';
import { JsonView } from '@/components/json-view';
import { Markdown } from '@/components/markdown/markdown';
import { Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { formatDuration } from '@/lib/format';
import { safeLink, safeExact, safeProse } from '@/lib/safe-text';
import { unreachable } from '@/lib/unreachable';
import { parseCodeEdit } from './code-edit';
import { FilesView } from './file-view';
import {
  isRefusal,
  isPartUnchanged,
  type PartProps,
  type Source,
  parseNotice,
  type DataPart,
  type Notice,
} from './parts';
import { ToolView } from './tool-view';

export const PartView = memo(function PartView({ group, streaming, last, approve }: PartProps): ReactNode {
  switch (group.kind) {
    case 'text': {
      const text = <Markdown text={group.part.text} streaming={streaming && last} />;
      return isRefusal(group.part) ? <Refusal>{text}</Refusal> : text;
    }
    case 'reasoning':
      return <ReasoningView text={group.part.text} streaming={streaming && last && group.part.state !== 'done'} />;
    case 'tool':
      return <ToolView part={group.part} streaming={streaming} {...(approve ? { approve } : {})} />;
    case 'data':
      return <DataView part={group.part} />;
    case 'sources':
      return <SourcesView sources={group.parts} />;
    case 'files':
      return <FilesView files={group.parts} />;
    default:
      return unreachable(group);
  }
}, isPartUnchanged);

const Refusal = ({ children }: { children: ReactNode }): ReactNode => (
  <div className="rounded-xl border border-warn/40 bg-warn-soft px-3 py-2">
    <div className="mb-1 flex items-center gap-1.5 text-xs font-medium text-warn">
      <ShieldAlert aria-hidden className="size-4" />
      Refused
    </div>
    {children}
  </div>
);

/** Reasoning of the model, collapsed. */
export function ReasoningView({ text, streaming }: { text: string; streaming: boolean }): ReactNode {
  const seconds = useStreamingSeconds(streaming);
  if (!text.trim() && !streaming) return null;
  const doneLabel = seconds === undefined ? 'Thoughts' : `Thought for ${formatDuration(seconds)}`;
  return (
    <Disclosure
      label={streaming ? <span className="animate-pulse">Thinking…</span> : doneLabel}
      className="ml-1.5 border-l-2 pl-3 text-[13px]"
    >
      <Markdown text={text} streaming={streaming} />
    </Disclosure>
  );
}

/** Seconds of streaming, if this page saw all of it. */
function useStreamingSeconds(streaming: boolean): number | undefined {
  const startedAt = useRef<number>(undefined);
  const [seconds, setSeconds] = useState<number>();
  useEffect(() => {
    if (streaming) startedAt.current ??= performance.now();
    else if (startedAt.current !== undefined) setSeconds((performance.now() - startedAt.current) / 1000);
  }, [streaming]);
  return seconds;
}

const CHIP_CLASS =
  'inline-flex max-w-full items-center gap-1.5 rounded-full border bg-surface px-2.5 py-0.5 text-xs text-muted';

/** Numbered sources with their hosts. */
export function SourcesView({ sources }: { sources: readonly Source[] }): ReactNode {
  return (
    <ol aria-label="Sources" className="flex flex-wrap gap-1.5">
      {sources.map((source, index) => (
        <li key={source.sourceId} className="max-w-full">
          <SourceChip source={source} number={index + 1} />
        </li>
      ))}
    </ol>
  );
}

function SourceChip({ source, number }: { source: Source; number: number }): ReactNode {
  const title = safeProse(source.title ?? '').slice(0, 300);
  const numberView = <b className="text-ink">{number}</b>;
  if (source.type === 'source-document') {
    return (
      <span className={CHIP_CLASS} title={safeExact(source.filename ?? source.mediaType)}>
        {numberView}
        <FileText aria-hidden className="size-3.5 shrink-0" />
        <span dir="auto" className="truncate">
          {title || safeExact(source.filename ?? 'Document')}
        </span>
      </span>
    );
  }
  const to = safeLink(source.url);
  const content = (
    <>
      {numberView}
      {title && (
        <span dir="auto" className="max-w-60 truncate">
          {title}
        </span>
      )}
      <span dir="ltr" className="truncate text-faint">
        {to ? to.host : safeExact(source.url).slice(0, 100)}
      </span>
    </>
  );
  if (!to) return <span className={CHIP_CLASS}>{content}</span>;
  return (
    <a
      href={to.href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      className={`${CHIP_CLASS} hover:border-strong-line hover:text-ink`}
    >
      {content}
    </a>
  );
}

const CodeEditView = lazy(() => import('./code-edit-view'));

/** Data part: code edit as a diff, notice, stored file, or else JSON. */
export function DataView({ part }: { part: DataPart }): ReactNode {
  const name = part.type.slice('data-'.length);
  const edit = name === 'code-edit' ? parseCodeEdit(part.data) : undefined;
  if (edit)
    return (
      <Suspense fallback={<Spinner />}>
        <CodeEditView edit={edit} />
      </Suspense>
    );
  const notice = name === 'notice' ? parseNotice(part.data) : undefined;
  if (notice) return <NoticeView notice={notice} />;
  const file = name === 'file' ? storedFilePart(part.data) : undefined;
  if (file) return <FilesView files={[file]} />;
  // The fields are meant for programs; the text of the reply says the same.
  if (name === 'reply')
    return (
      <Disclosure label="Reply fields" className="max-h-96 overflow-y-auto rounded-xl border bg-surface p-2">
        <JsonView value={part.data} />
      </Disclosure>
    );
  return (
    <section aria-label={`Data ${safeExact(name)}`} className="rounded-xl border bg-surface">
      <div dir="auto" className="truncate border-b px-3 py-1.5 text-xs text-muted">
        {safeExact(name).slice(0, 100)}
      </div>
      <div className="max-h-96 overflow-y-auto px-2 py-2">
        <JsonView value={part.data} />
      </div>
    </section>
  );
}

/** A file that is referenced by id. */
function storedFilePart(data: unknown): { url: string; mediaType: string; filename?: string } | undefined {
  if (typeof data !== 'object' || data === null) return undefined;
  const { file_id: id, media_type: mediaType, filename } = data as Record<string, unknown>;
  if (typeof id !== 'string') return undefined;
  return {
    url: `/api/files/${id}`,
    mediaType: typeof mediaType === 'string' ? mediaType : 'application/octet-stream',
    ...(typeof filename === 'string' ? { filename } : {}),
  };
}

/** Notice of a workflow about its answer (data part `notice`), such as that it runs offline. */
export function NoticeView({ notice: { level, text } }: { notice: Notice }): ReactNode {
  const Icon = level === 'warning' ? TriangleAlert : Info;
  return (
    <div
      role="note"
      className={cn(
        'flex items-start gap-2 rounded-xl px-3 py-2 text-[13px]',
        level === 'warning' ? 'bg-warn-soft' : 'bg-accent-soft',
      )}
    >
      <Icon
        aria-label={level === 'warning' ? 'Warning' : 'Notice'}
        className={cn('mt-0.5 size-4 shrink-0', level === 'warning' ? 'text-warn' : 'text-accent')}
      />
      <div dir="auto" className="min-w-0 wrap-anywhere whitespace-pre-wrap">
        <LongText text={text} />
      </div>
    </div>
  );
}
