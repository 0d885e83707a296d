/** Content of a span: messages or inputs and outputs, then attributes, events and links. */
import { useCallback, useMemo, type ReactNode, Fragment, useState, useEffect, useRef } from 'react';
import { Link } from 'wouter';
import { api, type Schemas } from '@/api/client';
import { CopyButton, Button } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { TextField } from '@/components/form-fields';
import { JsonBox, JsonView } from '@/components/json-view';
import {
  stepItems,
  conversationSteps,
  type StepItem,
  ConversationSteps,
} from '@/components/messages/conversation-steps';
import { Badge } from '@/components/status';
import { LongText } from '@/components/text';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatSize, formatDateTime, pluralize } from '@/lib/format';
import { safeProse, safeExact } from '@/lib/safe-text';
import type { Part, Span } from '@/pages/traces/queries';
import { sortedEntries, shortText } from '@/pages/traces/span-facts';
import { formatMilliseconds, parseMoment } from './timeline';

export function SpanContent({
  parts,
  resume,
}: {
  parts: SpanParts;
  resume: (messageCount: number) => Promise<void>;
}): ReactNode {
  const {
    trace_id: trace,
    span_id: id,
    messages_in: messagesIn,
    messages_out: messagesOut,
    inputs,
    outputs,
  } = parts.span;
  const items = useMemo(
    () => stepItems(conversationSteps(trace, id, [...(messagesIn ?? []), ...(messagesOut ?? [])])),
    [trace, id, messagesIn, messagesOut],
  );
  const resumeFrom = useCallback((item: StepItem) => resume(item.messageCount), [resume]);
  // A part that is too long even with its texts cut is sent empty.
  const isConversation =
    items.length > 0 || parts.fullSize('messages_in') !== undefined || parts.fullSize('messages_out') !== undefined;
  return (
    <>
      {isConversation && (
        <CollapsibleSection title="Messages" open>
          <TruncatedPart parts={parts} part="messages_in" />
          <TruncatedPart parts={parts} part="messages_out" />
          <ConversationSteps items={items} resume={resumeFrom} />
        </CollapsibleSection>
      )}
      <ContentValue title="Inputs" part="inputs" value={inputs} parts={parts} open={!isConversation} />
      <ContentValue title="Outputs" part="outputs" value={outputs} parts={parts} open={!isConversation} />
    </>
  );
}

function ContentValue({
  title,
  part,
  value,
  parts,
  open,
}: {
  title: string;
  part: Part;
  value: unknown;
  parts: SpanParts;
  open: boolean;
}): ReactNode {
  if ((value === null || value === undefined) && parts.fullSize(part) === undefined) return null;
  return (
    <CollapsibleSection
      title={title}
      open={open}
      trailing={
        <CopyButton
          label={`Copy ${title.toLowerCase()}`}
          text={() => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))}
        />
      }
    >
      <TruncatedPart parts={parts} part={part} />
      {typeof value === 'string' ? (
        <div
          dir="auto"
          className={cn(
            'max-h-[32rem] overflow-y-auto rounded-xl border',
            'bg-surface px-3 py-2 wrap-anywhere whitespace-pre-wrap',
          )}
        >
          <LongText text={value} sanitize={safeProse} />
        </div>
      ) : (
        <JsonBox value={value} />
      )}
    </CollapsibleSection>
  );
}

/** Notice that a part is truncated, with a button to load it. */
export function TruncatedPart({ parts, part }: { parts: SpanParts; part: Part }): ReactNode {
  const total = parts.fullSize(part);
  if (total === undefined) return null;
  const progress = parts.progress(part);
  return (
    <TruncatedNotice
      busy={progress !== undefined}
      {...(progress === undefined ? {} : { progress })}
      onShowAll={() => parts.load(part)}
    >
      {PART_LABELS[part] ?? 'Content'} truncated ({formatSize(total)} in total).
    </TruncatedNotice>
  );
}

const PART_LABELS: Partial<Record<Part, string>> = {
  messages_in: 'Input messages',
  messages_out: 'Output messages',
  inputs: 'Inputs',
  outputs: 'Outputs',
  attributes: 'Attributes',
  events: 'Events',
};

const MAX_EVENTS_SHOWN = 200;

/** Everything else in the record, and redactions. */
export function SpanDetails({ parts }: { parts: SpanParts }): ReactNode {
  const { span, fullSize } = parts;
  const countKeys = (value: object | undefined) => Object.keys(value ?? {}).length;
  const countLabel = (part: 'attributes' | 'events' | 'links' | 'parameters' | 'tools', count: number) =>
    count === 0 && fullSize(part) !== undefined ? {} : { count };
  return (
    <>
      <CollapsibleSection title="Parameters" {...countLabel('parameters', countKeys(span.parameters))}>
        <TruncatedPart parts={parts} part="parameters" />
        <JsonBox value={span.parameters} />
      </CollapsibleSection>
      <CollapsibleSection title="Tools" {...countLabel('tools', span.tools?.length ?? 0)}>
        <TruncatedPart parts={parts} part="tools" />
        <JsonBox value={span.tools} />
      </CollapsibleSection>
      <CollapsibleSection title="Attributes" {...countLabel('attributes', countKeys(span.attributes))}>
        <TruncatedPart parts={parts} part="attributes" />
        <Attributes attributes={span.attributes ?? {}} label="Attributes" />
      </CollapsibleSection>
      <CollapsibleSection title="Events" {...countLabel('events', span.events?.length ?? 0)}>
        <TruncatedPart parts={parts} part="events" />
        <Events span={span} />
      </CollapsibleSection>
      <CollapsibleSection title="Links" {...countLabel('links', span.links?.length ?? 0)}>
        <TruncatedPart parts={parts} part="links" />
        <Links span={span} />
      </CollapsibleSection>
      <CollapsibleSection title="Redactions" count={span.redactions?.length ?? 0}>
        <Redactions span={span} />
      </CollapsibleSection>
      <CollapsibleSection title="Notes" count={(span.notes?.length ?? 0) + countKeys(span.dropped)}>
        <div className="flex flex-wrap gap-1">
          {span.notes?.map((note) => (
            <Badge key={note} tone="warn">
              {safeExact(note).slice(0, 200)}
            </Badge>
          ))}
          {sortedEntries(span.dropped ?? {}).map(([field, count]) => (
            <Badge key={field}>
              {String(count)} {safeExact(field).slice(0, 40)} dropped
            </Badge>
          ))}
        </div>
      </CollapsibleSection>
    </>
  );
}

function Events({ span }: { span: Span }): ReactNode {
  const startTime = parseMoment(span.start);
  return (
    <ul className="space-y-2">
      {span.events?.slice(0, MAX_EVENTS_SHOWN).map((event, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- events have no ids
        <li key={index} className="min-w-0 rounded-lg border bg-surface px-3 py-2">
          <div className="flex items-baseline gap-2 text-[13px]">
            <bdi className="min-w-0 grow font-medium wrap-anywhere">{safeExact(event.name).slice(0, 300)}</bdi>
            {event.at && (
              <time
                dateTime={event.at}
                title={formatDateTime(event.at)}
                className="shrink-0 text-xs text-faint tabular-nums"
              >
                +{formatMilliseconds(Math.max(0, parseMoment(event.at) - startTime))}
              </time>
            )}
          </div>
          {Object.keys(event.attributes).length > 0 && (
            <Attributes attributes={event.attributes} label="Event attributes" />
          )}
        </li>
      ))}
      {(span.events?.length ?? 0) > MAX_EVENTS_SHOWN && (
        <li className="text-faint">
          Showing the first {MAX_EVENTS_SHOWN} of {span.events?.length} events.
        </li>
      )}
    </ul>
  );
}

const Links = ({ span }: { span: Span }): ReactNode => (
  <ul className="space-y-1 font-mono text-xs">
    {span.links?.map(({ trace_id: trace, span_id: id }, index) => (
      // oxlint-disable-next-line react/no-array-index-key -- the same span may be linked twice
      <li key={index}>
        <Link
          href={`/traces/${encodeURIComponent(trace)}?span=${encodeURIComponent(id)}`}
          className="wrap-anywhere text-accent hover:underline"
        >
          {trace} / {id}
        </Link>
      </li>
    ))}
  </ul>
);

const Redactions = ({ span }: { span: Span }): ReactNode => (
  <ul className="space-y-0.5 text-[13px]">
    {span.redactions?.map(({ path, by, count }) => (
      <li key={`${path} ${by}`} className="wrap-anywhere">
        <span className="font-mono text-xs">{safeExact(path).slice(0, 512)}</span>{' '}
        <span className="text-muted">
          by {safeExact(by).slice(0, 200)}, {pluralize(count ?? 1, 'time')}
        </span>
      </li>
    ))}
  </ul>
);

const ATTRIBUTES_PER_PAGE = 100;
const SEARCHABLE_COUNT = 12;
const LONG_VALUE_LENGTH = 300;

/** Table of attributes. Names are opaque: dots have no meaning. */
export function Attributes({ attributes, label }: { attributes: object; label: string }): ReactNode {
  const [searchText, setSearchText] = useState('');
  const [visibleCount, setVisibleCount] = useState(ATTRIBUTES_PER_PAGE);
  const entries = sortedEntries(attributes);
  const needle = searchText.trim().toLowerCase();
  const matches = needle
    ? entries.filter(
        ([name, value]) => name.toLowerCase().includes(needle) || shortText(value).toLowerCase().includes(needle),
      )
    : entries;
  return (
    <div className="min-w-0">
      {entries.length > SEARCHABLE_COUNT && (
        <TextField
          type="search"
          aria-label={`Find in ${label.toLowerCase()}`}
          placeholder="Find"
          dir="auto"
          value={searchText}
          onChange={(event) => setSearchText(event.target.value)}
          className="mb-1.5 h-7 text-[13px]"
        />
      )}
      <table aria-label={label} className="w-full table-fixed border-collapse text-[13px]">
        <tbody>
          {matches.slice(0, visibleCount).map(([name, value]) => (
            <tr key={name} className="group/attribute border-b border-line/60 align-top last:border-0">
              <th
                scope="row"
                dir="ltr"
                className="w-2/5 py-1 pr-3 text-left font-mono text-xs/5 font-normal wrap-anywhere text-muted"
              >
                <Name name={safeExact(name).slice(0, 600)} />
              </th>
              <td className="relative min-w-0 py-1 pr-7 font-mono text-xs/5 wrap-anywhere">
                <AttributeValue value={value} />
                <CopyButton
                  className={cn(
                    '!absolute top-0 right-0 opacity-0 group-hover/attribute:opacity-100 focus-visible:opacity-100',
                  )}
                  label="Copy value"
                  text={() => (typeof value === 'string' ? value : JSON.stringify(value))}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {matches.length === 0 && <p className="text-faint">{needle ? 'No matches' : 'None'}</p>}
      {matches.length > visibleCount && (
        <Button size="small" variant="quiet" onClick={() => setVisibleCount(visibleCount + ATTRIBUTES_PER_PAGE)}>
          Show {Math.min(ATTRIBUTES_PER_PAGE, matches.length - visibleCount)} of {matches.length - visibleCount} more
        </Button>
      )}
    </div>
  );
}

/** Lets long names break after dots. */
const Name = ({ name }: { name: string }): ReactNode =>
  name.split(/(?<=[._])/).map((piece, index) => (
    // oxlint-disable-next-line react/no-array-index-key -- pieces of one text
    <Fragment key={index}>
      {piece}
      <wbr />
    </Fragment>
  ));

function AttributeValue({ value }: { value: unknown }): ReactNode {
  const [isExpanded, setExpanded] = useState(false);
  if (typeof value === 'object' && value !== null) return <JsonView value={value} openLevels={0} copy={false} />;
  const text = typeof value === 'string' ? value : String(value);
  if (text.length <= LONG_VALUE_LENGTH || isExpanded)
    return (
      <span dir="auto" className="whitespace-pre-wrap">
        <LongText text={text} sanitize={safeExact} />
      </span>
    );
  return (
    <>
      <span dir="auto" className="whitespace-pre-wrap">
        {safeExact(text.slice(0, LONG_VALUE_LENGTH))}…
      </span>{' '}
      <Button size="small" variant="quiet" onClick={() => setExpanded(true)}>
        Show more
      </Button>
    </>
  );
}

export function TruncatedNotice({
  children,
  busy,
  progress,
  onShowAll,
}: {
  children: ReactNode;
  busy: boolean;
  progress?: number;
  onShowAll: () => void;
}): ReactNode {
  return (
    <div
      className={cn(
        'mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg',
        'bg-warn-soft px-3 py-1.5 text-[13px] text-warn',
      )}
    >
      <span className="grow">{children}</span>
      <Button size="small" disabled={busy} onClick={onShowAll}>
        {busy ? (progress === undefined ? 'Loading…' : `Loading… ${Math.round(progress * 100)}%`) : 'Show all'}
      </Button>
    </div>
  );
}

/** Parts of a record, loaded completely on demand. */
export interface SpanParts {
  span: Span;
  /** Full length of a truncated part; undefined if complete. */
  fullSize: (part: Part) => number | undefined;
  /** Loaded fraction of a part; undefined if not loading. */
  progress: (part: Part) => number | undefined;
  load: (part: Part) => void;
}

export function useSpanParts(record: Span): SpanParts {
  const [loaded, setLoaded] = useState<{ of: Span; parts: ReadonlyMap<Part, unknown> }>({
    of: record,
    parts: new Map(),
  });
  const [progressByPart, setProgressByPart] = useState<ReadonlyMap<Part, number>>(() => new Map());
  const controllerRef = useRef(new AbortController());
  useEffect(() => {
    const controller = new AbortController();
    controllerRef.current = controller;
    return () => controller.abort();
  }, []);
  const parts = loaded.of === record ? loaded.parts : NO_PARTS;
  const load = useCallback(
    (part: Part) => {
      const { signal } = controllerRef.current;
      const reportProgress = (progress: number | null) =>
        setProgressByPart(
          (previous) =>
            new Map([
              ...[...previous].filter(([other]) => other !== part),
              ...(progress === null ? [] : [[part, progress] as const]),
            ]),
        );
      reportProgress(0);
      fetchWholePart(fetchPiece(record.trace_id, record.span_id, part, signal), reportProgress)
        .then((value) =>
          setLoaded((previous) => ({
            of: record,
            parts: new Map([...(previous.of === record ? previous.parts : NO_PARTS), [part, value]]),
          })),
        )
        .catch((error: unknown) => signal.aborted || showError(error))
        .finally(() => reportProgress(null));
    },
    [record],
  );
  return {
    span: parts.size ? { ...record, ...(Object.fromEntries(parts) as Partial<Span>) } : record,
    fullSize: (part) => (parts.has(part) || !Object.hasOwn(record.cut ?? {}, part) ? undefined : record.cut?.[part]),
    progress: (part) => progressByPart.get(part),
    load,
  };
}

const NO_PARTS: ReadonlyMap<Part, unknown> = new Map();

type RecordPiece = Schemas['PartPiece'];

/** Fetch all pieces; `onProgress` receives the loaded fraction. */
export async function fetchWholePart(
  fetchAt: (offset: number) => Promise<RecordPiece>,
  onProgress: (fraction: number) => void = () => {},
): Promise<unknown> {
  const texts: string[] = [];
  for (let offset: number | null = 0; offset !== null;) {
    const piece: RecordPiece = await fetchAt(offset);
    texts.push(piece.text);
    onProgress(piece.total ? Math.min(1, (piece.offset + piece.text.length) / piece.total) : 1);
    if (piece.next !== null && piece.next <= piece.offset) throw new Error('The server sent the same part twice.');
    offset = piece.next;
  }
  return JSON.parse(texts.join('')) as unknown;
}

export const fetchPiece =
  (trace: string, span: string, part: Part, signal?: AbortSignal) =>
  async (offset: number): Promise<RecordPiece> =>
    // With a part requested the response is a piece of it.
    (await api('get', '/api/spans/{trace}/{span}', {
      path: { trace, span },
      query: { part, offset },
      ...(signal ? { signal } : {}),
    })) as unknown as RecordPiece;
