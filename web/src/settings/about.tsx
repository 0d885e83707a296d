/** What serves this page. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { api } from '@/api/client';
import { Spinner } from '@/components/status';
import { Section } from './section';
import { formatLimit, formatElapsed } from '@/lib/format';

const about = () => queryOptions({ queryKey: ['about'], queryFn: ({ signal }) => api('get', '/api/about', { signal }) });

export function AboutSection(): ReactNode {
  const { data, error } = useQuery(about());
  if (error) return null; // Not for everyone.
  return (
    <Section title="About">
      {data ? (
        <>
          <Pairs
            pairs={[
              ['Palaver', data.version],
              ['Python', data.python],
              ['Database', `${data.database === 'sqlite' ? 'SQLite' : 'PostgreSQL'}, schema ${data.schema}`],
              ['Processes', `${data.processes}${data.workers ? ` and ${data.workers} workers` : ''}`],
              ['Extras', data.extras.join(', ') || 'none'],
              ['Up for', formatElapsed(data.uptime_seconds)],
            ]}
          />
          <details>
            <summary className="w-fit cursor-pointer rounded text-muted hover:text-ink">Limits</summary>
            <div className="pt-2">
              <Pairs pairs={Object.entries(data.limits).map(([name, value]) => [name, formatLimit(name, value)])} />
            </div>
          </details>
        </>
      ) : (
        <Spinner />
      )}
    </Section>
  );
}

export const Pairs = ({ pairs }: { pairs: readonly (readonly [string, ReactNode])[] }): ReactNode => (
  <dl className="grid grid-cols-[minmax(7rem,14rem)_1fr] gap-x-4 gap-y-1">
    {pairs.map(([name, value]) => (
      <div key={name} className="contents">
        <dt className="truncate text-muted" title={name}>
          {name}
        </dt>
        <dd className="min-w-0 wrap-anywhere">{value}</dd>
      </div>
    ))}
  </dl>
);
