/** What a span was given and what it gave: its messages as a chat; else its inputs and outputs as they are. */
import { useCallback, useMemo, type ReactNode, Fragment, useState, useEffect, useRef } from 'react';
import { Link } from 'wouter';
import { api, type Schemas } from '@/api/client';
import { CopyButton, Button } from '@/components/button';
import { Section } from '@/components/collapsible';
import { TextField } from '@/components/form-fields';
import { JsonBox, JsonView } from '@/components/json-view';
import { itemsOf, stepsOf, type Item, StepsView } from '@/components/messages/conversation-steps';
import { Badge } from '@/components/status';
import { LongText } from '@/components/text';
import { tellError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatSize, formatDateTime as shownMoment } from '@/lib/format';
import { prose, exact } from '@/lib/safe-text';
import type { Part, Span } from '@/pages/traces/queries';
import { listed, shortly } from '@/pages/traces/span-facts';
import { lasted, moment } from './timeline';

export function SpanContent({ parts, resume }: { parts: Parts; resume: (upto: number) => Promise<void> }): ReactNode {
  const { trace_id: trace, span_id: id, messages_in: given, messages_out: said, inputs, outputs } = parts.span;
  const items = useMemo(
    () => itemsOf(stepsOf(trace, id, [...(given ?? []), ...(said ?? [])])),
    [trace, id, given, said],
  );
  const goOn = useCallback((item: Item) => resume(item.upto), [resume]);
  // A part that is too long even when its texts are cut comes empty.
  const isTalk = items.length > 0 || parts.cut('messages_in') !== undefined || parts.cut('messages_out') !== undefined;
  return (
    <>
      {isTalk && (
        <Section title="Messages" open>
          <CutPart parts={parts} part="messages_in" />
          <CutPart parts={parts} part="messages_out" />
          <StepsView items={items} resume={goOn} />
        </Section>
      )}
      <ContentValue title="Inputs" part="inputs" value={inputs} parts={parts} open={!isTalk} />
      <ContentValue title="Outputs" part="outputs" value={outputs} parts={parts} open={!isTalk} />
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
  parts: Parts;
  open: boolean;
}): ReactNode {
  if ((value === null || value === undefined) && parts.cut(part) === undefined) return null;
  return (
    <Section
      title={title}
      open={open}
      aside={
        <CopyButton
          label={`Copy ${title.toLowerCase()}`}
          text={() => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))}
        />
      }
    >
      <CutPart parts={parts} part={part} />
      {typeof value === 'string' ? (
        <div
          dir="auto"
          className={cn(
            'max-h-[32rem] overflow-y-auto rounded-xl border',
            'bg-surface px-3 py-2 wrap-anywhere whitespace-pre-wrap',
          )}
        >
          <LongText text={value} tidy={prose} />
        </div>
      ) : (
        <JsonBox value={value} />
      )}
    </Section>
  );
}

/** Says of a part that it is not shown whole, and gets it. */
export function CutPart({ parts, part }: { parts: Parts; part: Part }): ReactNode {
  const total = parts.cut(part);
  if (total === undefined) return null;
  const share = parts.share(part);
  return (
    <Cut busy={share !== undefined} {...(share === undefined ? {} : { share })} onAll={() => parts.load(part)}>
      {WORDS[part] ?? 'This'} shown in part: {formatSize(total)} in all.
    </Cut>
  );
}

const WORDS: Partial<Record<Part, string>> = {
  messages_in: 'What it was given is',
  messages_out: 'What it said is',
  inputs: 'The inputs are',
  outputs: 'The outputs are',
  attributes: 'The attributes are',
  events: 'The events are',
};

const MAX_EVENTS_SHOWN = 200;

/** Everything else that was sent with a span, and what was done to it on the way in. */
export function SpanRest({ parts }: { parts: Parts }): ReactNode {
  const { span, cut } = parts;
  const size = (map: object | undefined) => Object.keys(map ?? {}).length;
  const many = (part: 'attributes' | 'events' | 'links' | 'parameters' | 'tools', count: number) =>
    count === 0 && cut(part) !== undefined ? {} : { count };
  return (
    <>
      <Section title="Parameters" {...many('parameters', size(span.parameters))}>
        <CutPart parts={parts} part="parameters" />
        <JsonBox value={span.parameters} />
      </Section>
      <Section title="Tools" {...many('tools', span.tools?.length ?? 0)}>
        <CutPart parts={parts} part="tools" />
        <JsonBox value={span.tools} />
      </Section>
      <Section title="Attributes" {...many('attributes', size(span.attributes))}>
        <CutPart parts={parts} part="attributes" />
        <Attributes map={span.attributes ?? {}} label="Attributes" />
      </Section>
      <Section title="Events" {...many('events', span.events?.length ?? 0)}>
        <CutPart parts={parts} part="events" />
        <Events span={span} />
      </Section>
      <Section title="Links" {...many('links', span.links?.length ?? 0)}>
        <CutPart parts={parts} part="links" />
        <Links span={span} />
      </Section>
      <Section title="Removed before it was stored" count={span.redactions?.length ?? 0}>
        <Redactions span={span} />
      </Section>
      <Section title="Notes" count={(span.notes?.length ?? 0) + size(span.dropped)}>
        <div className="flex flex-wrap gap-1">
          {span.notes?.map((note) => (
            <Badge key={note} tone="warn">
              {exact(note).slice(0, 200)}
            </Badge>
          ))}
          {listed(span.dropped ?? {}).map(([what, count]) => (
            <Badge key={what}>
              {String(count)} {exact(what).slice(0, 40)} dropped
            </Badge>
          ))}
        </div>
      </Section>
    </>
  );
}

function Events({ span }: { span: Span }): ReactNode {
  const began = moment(span.start);
  return (
    <ul className="space-y-2">
      {span.events?.slice(0, MAX_EVENTS_SHOWN).map((event, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- events have no names of their own
        <li key={place} className="min-w-0 rounded-lg border bg-surface px-3 py-2">
          <div className="flex items-baseline gap-2 text-[13px]">
            <bdi className="min-w-0 grow font-medium wrap-anywhere">{exact(event.name).slice(0, 300)}</bdi>
            {event.at && (
              <time
                dateTime={event.at}
                title={shownMoment(event.at)}
                className="shrink-0 text-xs text-faint tabular-nums"
              >
                +{lasted(Math.max(0, moment(event.at) - began))}
              </time>
            )}
          </div>
          {Object.keys(event.attributes).length > 0 && (
            <Attributes map={event.attributes} label="Attributes of the event" />
          )}
        </li>
      ))}
      {(span.events?.length ?? 0) > MAX_EVENTS_SHOWN && (
        <li className="text-faint">
          The first {MAX_EVENTS_SHOWN} of {span.events?.length} are shown.
        </li>
      )}
    </ul>
  );
}

const Links = ({ span }: { span: Span }): ReactNode => (
  <ul className="space-y-1 font-mono text-xs">
    {span.links?.map(({ trace_id: trace, span_id: id }, place) => (
      // oxlint-disable-next-line react/no-array-index-key -- the same may be linked twice
      <li key={place}>
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
        <span className="font-mono text-xs">{exact(path).slice(0, 512)}</span>{' '}
        <span className="text-muted">
          by {exact(by).slice(0, 200)}, {count ?? 1} time{count === 1 || count === undefined ? '' : 's'}
        </span>
      </li>
    ))}
  </ul>
);

const ATTRIBUTES_PER_PAGE = 100;
const MANY = 12;
const LONG = 300;

/** A flat map of strangers' names and values, as a table. Names are text: no dot in them means anything here. */
export function Attributes({ map, label }: { map: object; label: string }): ReactNode {
  const [words, setWords] = useState('');
  const [shown, setShown] = useState(ATTRIBUTES_PER_PAGE);
  const all = listed(map);
  const wanted = words.trim().toLowerCase();
  const found = wanted
    ? all.filter(
        ([name, value]) => name.toLowerCase().includes(wanted) || shortly(value).toLowerCase().includes(wanted),
      )
    : all;
  return (
    <div className="min-w-0">
      {all.length > MANY && (
        <TextField
          type="search"
          aria-label={`Find in ${label.toLowerCase()}`}
          placeholder="Find"
          dir="auto"
          value={words}
          onChange={(event) => setWords(event.target.value)}
          className="mb-1.5 h-7 text-[13px]"
        />
      )}
      <table aria-label={label} className="w-full table-fixed border-collapse text-[13px]">
        <tbody>
          {found.slice(0, shown).map(([name, value]) => (
            <tr key={name} className="group/attribute border-b border-line/60 align-top last:border-0">
              <th
                scope="row"
                dir="ltr"
                className="w-2/5 py-1 pr-3 text-left font-mono text-xs/5 font-normal wrap-anywhere text-muted"
              >
                <Name name={exact(name).slice(0, 600)} />
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
      {found.length === 0 && <p className="text-faint">None</p>}
      {found.length > shown && (
        <Button size="small" look="quiet" onClick={() => setShown(shown + ATTRIBUTES_PER_PAGE)}>
          Show {Math.min(ATTRIBUTES_PER_PAGE, found.length - shown)} more of {found.length - shown}
        </Button>
      )}
    </div>
  );
}

/** A long name goes on in the next line after a dot, if it can. */
const Name = ({ name }: { name: string }): ReactNode =>
  name.split(/(?<=[._])/).map((piece, place) => (
    // oxlint-disable-next-line react/no-array-index-key -- pieces of one text
    <Fragment key={place}>
      {piece}
      <wbr />
    </Fragment>
  ));

function AttributeValue({ value }: { value: unknown }): ReactNode {
  const [all, setAll] = useState(false);
  if (typeof value === 'object' && value !== null) return <JsonView value={value} open={0} copy={false} />;
  const text = typeof value === 'string' ? value : String(value);
  if (text.length <= LONG || all)
    return (
      <span dir="auto" className="whitespace-pre-wrap">
        <LongText text={text} tidy={exact} />
      </span>
    );
  return (
    <>
      <span dir="auto" className="whitespace-pre-wrap">
        {exact(text.slice(0, LONG))}…
      </span>{' '}
      <Button size="small" look="quiet" onClick={() => setAll(true)}>
        Show more
      </Button>
    </>
  );
}

/** A line that says that not all is shown, and gets the rest. */
export function Cut({
  children,
  busy,
  share,
  onAll,
}: {
  children: ReactNode;
  busy: boolean;
  share?: number;
  onAll: () => void;
}): ReactNode {
  return (
    <div
      className={cn(
        'mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg',
        'bg-warn-soft px-3 py-1.5 text-[13px] text-warn',
      )}
    >
      <span className="grow">{children}</span>
      <Button size="small" disabled={busy} onClick={onAll}>
        {busy ? (share === undefined ? 'Loading…' : `Loading, ${Math.round(share * 100)} %`) : 'Show all'}
      </Button>
    </div>
  );
}

/** The parts of a record: as they came, and whole once somebody asks for them. */
export interface Parts {
  span: Span;
  /** How many characters there are of a part that is not shown whole; undefined: it is. */
  cut: (part: Part) => number | undefined;
  /** How much of a part has been got that is on its way; undefined: it is not. */
  share: (part: Part) => number | undefined;
  load: (part: Part) => void;
}

export function useParts(record: Span): Parts {
  const [got, setGot] = useState<{ of: Span; parts: ReadonlyMap<Part, unknown> }>({ of: record, parts: new Map() });
  const [shares, setShares] = useState<ReadonlyMap<Part, number>>(() => new Map());
  const leave = useRef(new AbortController());
  useEffect(() => {
    const ended = new AbortController();
    leave.current = ended;
    return () => ended.abort();
  }, []);
  const parts = got.of === record ? got.parts : NONE;
  const load = useCallback(
    (part: Part) => {
      const { signal } = leave.current;
      const tell = (share: number | null) =>
        setShares(
          (now) =>
            new Map([...[...now].filter(([one]) => one !== part), ...(share === null ? [] : [[part, share] as const])]),
        );
      tell(0);
      whole(pieceOf(record.trace_id, record.span_id, part, signal), tell)
        .then((value) =>
          setGot((now) => ({ of: record, parts: new Map([...(now.of === record ? now.parts : NONE), [part, value]]) })),
        )
        .catch((error: unknown) => signal.aborted || tellError(error))
        .finally(() => tell(null));
    },
    [record],
  );
  return {
    span: parts.size ? { ...record, ...(Object.fromEntries(parts) as Partial<Span>) } : record,
    cut: (part) => (parts.has(part) || !Object.hasOwn(record.cut ?? {}, part) ? undefined : record.cut?.[part]),
    share: (part) => shares.get(part),
    load,
  };
}

const NONE: ReadonlyMap<Part, unknown> = new Map();

type Piece = Schemas['Piece'];

/** The value, once all of it is there; `told` hears how much is. */
export async function whole(
  read: (offset: number) => Promise<Piece>,
  told: (share: number) => void = () => {},
): Promise<unknown> {
  const texts: string[] = [];
  for (let offset: number | null = 0; offset !== null;) {
    const piece: Piece = await read(offset);
    texts.push(piece.text);
    told(piece.total ? Math.min(1, (piece.offset + piece.text.length) / piece.total) : 1);
    if (piece.next !== null && piece.next <= piece.offset) throw new Error('The server sends the same piece again.');
    offset = piece.next;
  }
  return JSON.parse(texts.join('')) as unknown;
}

/** A part of a record that is too long to be sent at once, put together from its pieces. */
export const pieceOf =
  (trace: string, span: string, part: Part, signal?: AbortSignal) =>
  async (offset: number): Promise<Piece> =>
    // With a part asked for, the answer is a piece of it.
    (await api('get', '/api/spans/{trace}/{span}', {
      path: { trace, span },
      query: { part, offset },
      ...(signal ? { signal } : {}),
    })) as unknown as Piece;
