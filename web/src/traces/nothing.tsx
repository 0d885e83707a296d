/** What stands where no row is: how to get some, or how to ask for less. */
import { useQuery } from '@tanstack/react-query';
import { ListTree, SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { session } from '@/app/auth';
import { Button, CopyButton } from '@/components/button';
import { Empty, Spinner } from '@/components/status';
import { ROOT } from '@/lib/server-path';
import { NOTHING, RANGES, type Asked } from './asked';
import { anyTrace } from './queries';

export function Nothing({ asked, onChange }: { asked: Asked; onChange: (asked: Asked) => void }): ReactNode {
  const { data: any, error } = useQuery(anyTrace());
  if (any === undefined && !error) return <div className="flex justify-center py-16"><Spinner /></div>;
  return any === false ? <NoTraces /> : <NothingMatches asked={asked} onChange={onChange} />;
}

function NothingMatches({ asked, onChange }: { asked: Asked; onChange: (asked: Asked) => void }): ReactNode {
  const filtered = asked.conditions.length > 0 || asked.search.trim() !== '';
  const earlier = asked.range !== 'all';
  return (
    <Empty icon={<SearchX aria-hidden />} title={filtered ? 'Nothing matches' : 'Nothing in this time'}>
      <p>
        No {asked.rows === 'traces' ? 'trace' : 'span'} {filtered ? 'is like that' : 'began then'}
        {earlier && asked.range !== 'custom' && filtered ? ` (${RANGES[asked.range].toLowerCase()})` : ''}.
      </p>
      <div className="flex flex-wrap justify-center gap-2 pt-3">
        {filtered && <Button onClick={() => onChange({ ...asked, search: '', any: false, conditions: [] })}>Clear the filters</Button>}
        {earlier && <Button onClick={() => onChange({ ...asked, range: 'all', from: null, to: null })}>Look at all time</Button>}
        {!filtered && !earlier && <Button onClick={() => onChange(NOTHING)}>Begin anew</Button>}
      </div>
    </Empty>
  );
}

function NoTraces(): ReactNode {
  const { data } = useQuery(session());
  const lines = [
    `export OTEL_EXPORTER_OTLP_ENDPOINT=${window.location.origin}${ROOT}`,
    'export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf',
    ...(data?.key ? ["export OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer YOUR_KEY'"] : []),
  ];
  return (
    <Empty icon={<ListTree aria-hidden />} title="No traces yet">
      <p>
        Every run leaves one: <Link href="/play" className="text-accent underline underline-offset-2">talk to a workflow in the playground</Link>, and it is here.
      </p>
      <p className="pt-4">Or send those of any program that is instrumented with OpenTelemetry:</p>
      <div className="relative my-3 rounded-xl border bg-surface text-left">
        <pre className="overflow-x-auto px-4 py-3 pr-10 font-mono text-[13px] text-ink">{lines.join('\n')}</pre>
        <CopyButton text={lines.join('\n')} className="absolute top-1.5 right-1.5" />
      </div>
    </Empty>
  );
}
