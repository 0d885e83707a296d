/** The services that are connected, where they are, and how to let one go. */
import { useQuery } from '@tanstack/react-query';
import { Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Schemas } from '@/api/client';
import { useIsAdmin } from '@/app/auth';
import { formatDateTime, formatTimeAgo } from '@/lib/format';
import { Badge } from '@/components/status';
import { IconButton } from '@/components/button';
import { tellError } from '@/components/toast';
import { connections, disconnect } from './connections';

type Row = Schemas['ConnectionRow'];
const TONES = { ready: 'good', unreachable: 'bad', failed: 'bad' } as const;
const STATES = { ready: 'Ready', unreachable: 'Unreachable', failed: 'Not served' };

export function ConnectionList(): ReactNode {
  const { data } = useQuery(connections());
  const isAdmin = useIsAdmin();
  if (!data?.data.length) return null;
  return (
    <section className="pt-8">
      <h2 className="pb-2 font-semibold">Connections</h2>
      <ul className="divide-y divide-line rounded-xl border bg-surface">
        {data.data.map((row) => (
          <ConnectionRow key={`${row.name} ${row.state}`} row={row} removable={isAdmin && !row.fixed} />
        ))}
      </ul>
    </section>
  );
}

const ConnectionRow = ({ row, removable }: { row: Row; removable: boolean }): ReactNode => (
  <li className="flex min-h-12 items-center gap-3 px-4 py-2">
    <div className="min-w-0 grow">
      <div className="flex min-w-0 items-center gap-2">
        {row.state === 'failed' ? (
          <span className="truncate font-medium">{row.name}</span>
        ) : (
          <Link href={`/workflows/${encodeURIComponent(row.name)}`} className="truncate rounded font-medium hover:underline">
            {row.name}
          </Link>
        )}
        <Badge tone={TONES[row.state]}>{STATES[row.state]}</Badge>
        {row.fixed && <Badge title="It is changed where it is declared">{row.declared_in === 'settings' ? 'In palaver.toml' : 'In code'}</Badge>}
      </div>
      <div className="truncate font-mono text-xs leading-5 text-muted" title={row.url}>
        {row.url}
      </div>
      {row.message && (
        <div className="text-bad wrap-anywhere" dir="auto">
          {row.message}
        </div>
      )}
    </div>
    {row.checked_at && (
      <span className="hidden shrink-0 text-xs text-faint sm:inline" title={formatDateTime(row.checked_at)}>
        asked {formatTimeAgo(row.checked_at)}
      </span>
    )}
    {removable && (
      <IconButton label={`Disconnect ${row.name}`} onClick={() => void disconnect(row.name).catch(tellError)}>
        <Trash2 />
      </IconButton>
    )}
  </li>
);
