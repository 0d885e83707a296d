/** Sections of the settings page. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api } from '@/api/client';
import { STEP_IDS, tour, useTour } from '@/app/tour/progress';
import { Button } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { SegmentedControl } from '@/components/form-fields';
import { Spinner, Badge, ErrorMessage } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatLimit, formatElapsed, formatSettingValue } from '@/lib/format';

export const SettingsSection = ({
  title,
  trailing,
  children,
}: {
  title: string;
  trailing?: ReactNode;
  children: ReactNode;
}): ReactNode => (
  <section className="flex flex-col gap-4">
    <header className="flex min-h-9 items-end justify-between border-b pb-1">
      <h2 className="text-base font-semibold">{title}</h2>
      {trailing}
    </header>
    {children}
  </section>
);

const aboutQuery = () =>
  queryOptions({ queryKey: ['about'], queryFn: ({ signal }) => api('get', '/api/about', { signal }) });

export function AboutSection(): ReactNode {
  const { data, error } = useQuery(aboutQuery());
  if (error) return null; // Needs the admin scope.
  return (
    <SettingsSection title="About">
      {data ? (
        <>
          <DefinitionList
            pairs={[
              ['Palaver', data.version],
              ['Python', data.python],
              ['Database', `${data.database === 'sqlite' ? 'SQLite' : 'PostgreSQL'}, schema ${data.schema}`],
              ['Server processes', data.processes],
              ...(data.workers ? ([['Workers', data.workers]] as const) : []),
              ['Extras', data.extras.join(', ') || 'none'],
              ['Uptime', formatElapsed(data.uptime_seconds)],
            ]}
          />
          <details>
            <summary className="w-fit cursor-pointer rounded text-muted hover:text-ink">Limits</summary>
            <div className="pt-2">
              <DefinitionList
                pairs={Object.entries(data.limits)
                  .filter(([name]) => name !== 'port')
                  .map(([name, value]) => [name, formatLimit(name, value)])}
              />
            </div>
          </details>
        </>
      ) : (
        <Spinner />
      )}
    </SettingsSection>
  );
}

export const DefinitionList = ({ pairs }: { pairs: readonly (readonly [string, ReactNode])[] }): ReactNode => (
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

const STORAGE_PREFIX = 'palaver.';

/** Data that this browser stores. */
export function BrowserSection(): ReactNode {
  const [storedKeys] = useState(() => Object.keys(localStorage).filter((key) => key.startsWith(STORAGE_PREFIX)));
  const forget = async () => {
    const confirmed = await askConfirmation({
      title: 'Clear data stored in this browser?',
      text: 'Deletes theme, preferences and unsent drafts. Threads and boards are stored on the server and are kept.',
      act: 'Clear',
      danger: true,
    });
    if (!confirmed) return;
    for (const key of storedKeys) localStorage.removeItem(key);
    window.location.reload();
  };
  return (
    <SettingsSection title="This browser">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
        <p className="min-w-0 text-[13px] text-muted">
          Threads, boards and files are stored on the server.{' '}
          {storedKeys.length > 0
            ? 'This browser stores only your preferences and drafts.'
            : 'Nothing is stored in this browser yet.'}
        </p>
        <Button variant="danger" disabled={storedKeys.length === 0} onClick={() => void forget()}>
          Clear
        </Button>
      </div>
    </SettingsSection>
  );
}

const settingsQuery = () =>
  queryOptions({ queryKey: ['settings'], queryFn: ({ signal }) => api('get', '/api/settings', { signal }) });
const SOURCES = { flag: 'command line', env: 'environment', file: 'palaver.toml', default: 'default' };
const SETTING_FILTERS = { changed: 'Changed', all: 'All' };

/** Settings of the server, read-only. */
export function ServerSection(): ReactNode {
  const { data, error } = useQuery(settingsQuery());
  const [filter, setFilter] = useState<keyof typeof SETTING_FILTERS>('changed');
  const rows = (data?.data ?? []).filter(({ source }) => filter === 'all' || source !== 'default');
  return (
    <SettingsSection
      title="Server"
      trailing={
        <SegmentedControl label="Settings filter" options={SETTING_FILTERS} value={filter} onChange={setFilter} />
      }
    >
      {error && <ErrorMessage error={error} />}
      {!data && !error && <Spinner />}
      {data && rows.length === 0 && <p className="text-muted">All settings have their default values.</p>}
      {rows.length > 0 && (
        <ul className="divide-y divide-line rounded-xl border bg-surface">
          {rows.map(({ name, value, source }) => (
            <li key={name} className="flex flex-wrap items-center gap-x-3 px-4 py-1.5 sm:flex-nowrap">
              <code className="min-w-0 grow truncate font-mono text-[13px] sm:w-48 sm:shrink-0 sm:grow-0" title={name}>
                {name}
              </code>
              {/* On a phone below its name: paths are long. */}
              <code
                className={cn(
                  'order-last w-full min-w-0 font-mono text-[13px] wrap-anywhere sm:order-none sm:w-auto sm:grow',
                  source === 'default' && 'text-muted',
                )}
              >
                {formatSettingValue(value)}
              </code>
              {source !== 'default' && <Badge>{SOURCES[source]}</Badge>}
            </li>
          ))}
        </ul>
      )}
      <p className="text-[13px] text-muted">
        To change a setting, use a command-line option, a PALAVER_… environment variable or palaver.toml.
      </p>
    </SettingsSection>
  );
}

/** Restarts the tour, where there is one. */
export function TourSection(): ReactNode {
  const { on, look, done } = useTour();
  if (!on) return null;
  return (
    <SettingsSection title="Tour">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
        <p className="min-w-0 text-[13px] text-muted">
          {done.length} of {STEP_IDS.length} steps done.{look !== 'away' && ' The tour is in the sidebar.'}
        </p>
        <div className="flex gap-2">
          {done.length > 0 && <Button onClick={() => tour.restart()}>Restart tour</Button>}
          {look === 'away' ? (
            <Button onClick={() => tour.show('open')}>Show tour</Button>
          ) : (
            <Button onClick={() => tour.show('away')}>Hide tour</Button>
          )}
        </div>
      </div>
    </SettingsSection>
  );
}
