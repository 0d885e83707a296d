/** Facts of a span besides its content, most important first. */
import { formatDollars } from '@/lib/format';
import { formatMilliseconds } from './detail/timeline';
import type { Span } from './queries';

export interface SpanFact {
  label: string;
  text: string;
  /** Whether the text is an untrusted name: shown verbatim as code, with a copy button. */
  code?: boolean;
  /** Path of another page of the app. */
  href?: string;
}

export function spanFacts(span: Span): SpanFact[] {
  const facts: SpanFact[] = [];
  const add = (label: string, text: string | null | undefined, options: Partial<SpanFact> = {}) => {
    if (text) facts.push({ label, text, ...options });
  };
  const { usage } = span;
  add('Kind', span.kind);
  add('Model', span.model, { code: true });
  add('Provider', span.provider, { code: true });
  add('Tool', span.tool?.name, { code: true });
  add('Call ID', span.tool?.call_id, { code: true });
  add('Started', span.start);
  add('Duration', formatMilliseconds(span.duration_ms ?? 0));
  add('Finish reason', span.finish);
  add('Tokens', usage && formatTokens(usage));
  add(
    'Cost',
    typeof span.cost === 'number'
      ? `${formatDollars(span.cost)}${span.cost_source ? `, ${span.cost_source}` : ''}`
      : null,
  );
  add('Workflow', span.workflow, { code: true });
  add('Session', span.session, span.session ? { code: true, href: sessionPath(span.session) } : {});
  add('User', span.user, { code: true });
  add('Run', span.run_id, { code: true });
  add('Service', span.service, { code: true });
  add('Scope', span.scope, { code: true });
  add('Conventions', span.conventions?.join(', '));
  return facts;
}

function formatTokens(usage: NonNullable<Span['usage']>): string {
  const counts: [number | null | undefined, string][] = [
    [usage.input_tokens, 'in'],
    [usage.cached_input_tokens, 'cached'],
    [usage.cache_creation_input_tokens, 'written to cache'],
    [usage.output_tokens, 'out'],
    [usage.reasoning_tokens, 'reasoning'],
  ];
  return counts
    .flatMap(([number, label]) => (typeof number === 'number' ? [`${number.toLocaleString('en')} ${label}`] : []))
    .join(', ');
}

/** Path of a session; names that are unsafe in a path become a parameter. */
export const sessionPath = (session: string): string =>
  /^[A-Za-z0-9][\w.~-]*$/.test(session) ? `/sessions/${session}` : `/sessions/_?session=${encodeURIComponent(session)}`;

/** Own entries sorted by name; `__proto__` is a name like any other. */
export const sortedEntries = (map: object): [string, unknown][] =>
  Object.entries(map).toSorted(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));

/** A value as text (JSON unless it is a string), cut after `length` characters. */
export function shortText(value: unknown, length = 300): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return text.length > length ? `${text.slice(0, length)}…` : text;
}
