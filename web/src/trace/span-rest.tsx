/** Everything else that was sent with a span, and what was done to it on the way in. */
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { formatDateTime as shownMoment } from '@/lib/format';
import { exact } from '@/lib/safe-text';
import { Badge } from '@/components/status';
import { Attributes } from './attributes';
import { listed } from './facts';
import { JsonBox } from '@/components/json-view';
import type { Span } from './queries';
import { Section } from '@/components/collapsible';
import { CutPart } from './span-content';
import { lasted, moment } from './time';
import type { Parts } from './whole-parts';

const STEP = 200;

export function SpanRest({ parts }: { parts: Parts }): ReactNode {
  const { span, cut } = parts;
  const size = (map: object | undefined) => Object.keys(map ?? {}).length;
  const many = (part: 'attributes' | 'events' | 'links' | 'parameters' | 'tools', count: number) => (count === 0 && cut(part) !== undefined ? {} : { count });
  return (
    <>
      <Section title="Parameters" {...many('parameters', size(span.parameters))}><CutPart parts={parts} part="parameters" /><JsonBox value={span.parameters} /></Section>
      <Section title="Tools" {...many('tools', span.tools?.length ?? 0)}><CutPart parts={parts} part="tools" /><JsonBox value={span.tools} /></Section>
      <Section title="Attributes" {...many('attributes', size(span.attributes))}>
        <CutPart parts={parts} part="attributes" />
        <Attributes map={span.attributes ?? {}} label="Attributes" />
      </Section>
      <Section title="Events" {...many('events', span.events?.length ?? 0)}><CutPart parts={parts} part="events" /><Events span={span} /></Section>
      <Section title="Links" {...many('links', span.links?.length ?? 0)}><CutPart parts={parts} part="links" /><Links span={span} /></Section>
      <Section title="Removed before it was stored" count={span.redactions?.length ?? 0}><Redactions span={span} /></Section>
      <Section title="Notes" count={(span.notes?.length ?? 0) + size(span.dropped)}>
        <div className="flex flex-wrap gap-1">
          {span.notes?.map((note) => <Badge key={note} tone="warn">{exact(note).slice(0, 200)}</Badge>)}
          {listed(span.dropped ?? {}).map(([what, count]) => <Badge key={what}>{String(count)} {exact(what).slice(0, 40)} dropped</Badge>)}
        </div>
      </Section>
    </>
  );
}

function Events({ span }: { span: Span }): ReactNode {
  const began = moment(span.start);
  return (
    <ul className="space-y-2">
      {span.events?.slice(0, STEP).map((event, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- events have no names of their own
        <li key={place} className="min-w-0 rounded-lg border bg-surface px-3 py-2">
          <div className="flex items-baseline gap-2 text-[13px]">
            <bdi className="min-w-0 grow font-medium wrap-anywhere">{exact(event.name).slice(0, 300)}</bdi>
            {event.at && <time dateTime={event.at} title={shownMoment(event.at)} className="shrink-0 text-xs text-faint tabular-nums">+{lasted(Math.max(0, moment(event.at) - began))}</time>}
          </div>
          {Object.keys(event.attributes).length > 0 && <Attributes map={event.attributes} label="Attributes of the event" />}
        </li>
      ))}
      {(span.events?.length ?? 0) > STEP && <li className="text-faint">The first {STEP} of {span.events?.length} are shown.</li>}
    </ul>
  );
}

const Links = ({ span }: { span: Span }): ReactNode => (
  <ul className="space-y-1 font-mono text-xs">
    {span.links?.map(({ trace_id: trace, span_id: id }, place) => (
      // oxlint-disable-next-line react/no-array-index-key -- the same may be linked twice
      <li key={place}>
        <Link href={`/traces/${encodeURIComponent(trace)}?span=${encodeURIComponent(id)}`} className="wrap-anywhere text-accent hover:underline">{trace} / {id}</Link>
      </li>
    ))}
  </ul>
);

const Redactions = ({ span }: { span: Span }): ReactNode => (
  <ul className="space-y-0.5 text-[13px]">
    {span.redactions?.map(({ path, by, count }) => (
      <li key={`${path} ${by}`} className="wrap-anywhere"><span className="font-mono text-xs">{exact(path).slice(0, 512)}</span> <span className="text-muted">by {exact(by).slice(0, 200)}, {count ?? 1} time{count === 1 || count === undefined ? '' : 's'}</span></li>
    ))}
  </ul>
);
