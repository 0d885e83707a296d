/** The settings that the server runs with; read only, for they are changed where they are written. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { api } from '@/api/client';
import { classes } from '@/lib/class-names';
import { Badge, Problem, Spinner } from '@/components/status';
import { Segments } from '@/components/segmented-control';
import { Section } from './section';
import { formatSettingValue } from '@/lib/format';

const settings = () => queryOptions({ queryKey: ['settings'], queryFn: ({ signal }) => api('get', '/api/settings', { signal }) });
const SOURCES = { flag: 'command line', env: 'environment', file: 'palaver.toml', default: 'default' };
const WHICH = { changed: 'Changed', all: 'All' };

export function ServerSection(): ReactNode {
  const { data, error } = useQuery(settings());
  const [which, setWhich] = useState<keyof typeof WHICH>('changed');
  const rows = (data?.data ?? []).filter(({ source }) => which === 'all' || source !== 'default');
  return (
    <Section title="Server" aside={<Segments label="Which settings" options={WHICH} value={which} onChange={setWhich} />}>
      {error && <Problem error={error} />}
      {!data && !error && <Spinner />}
      {data && rows.length === 0 && <p className="text-muted">Everything is as by default.</p>}
      {rows.length > 0 && (
        <ul className="divide-y divide-line rounded-xl border bg-surface">
          {rows.map(({ name, value, source }) => (
            <li key={name} className="flex flex-wrap items-center gap-x-3 px-4 py-1.5 sm:flex-nowrap">
              <code className="min-w-0 grow truncate font-mono text-[13px] sm:w-48 sm:shrink-0 sm:grow-0" title={name}>
                {name}
              </code>
              {/* On a phone below its name: paths are long. */}
              <code className={classes('order-last w-full min-w-0 font-mono text-[13px] wrap-anywhere sm:order-none sm:w-auto sm:grow', source === 'default' && 'text-muted')}>{formatSettingValue(value)}</code>
              {source !== 'default' && <Badge>{SOURCES[source]}</Badge>}
            </li>
          ))}
        </ul>
      )}
      <p className="text-[13px] text-muted">Settings are changed where they are written: flags, PALAVER_… variables, palaver.toml.</p>
    </Section>
  );
}
