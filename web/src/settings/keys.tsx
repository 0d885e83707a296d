/** The keys of the project: who may come in, with what, until when. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { KeyRound, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api, type Schemas } from '@/api/client';
import { queryClient } from '@/api/queries';
import { formatDateTime, formatTimeAgo } from '@/lib/format';
import { classes } from '@/lib/class-names';
import { askYes } from '@/components/confirm-dialog';
import { Badge, Problem, Spinner } from '@/components/status';
import { Button, IconButton } from '@/components/button';
import { tellError } from '@/components/toast';
import { NewKeyDialog } from './new-key';
import { Section } from './section';

type Key = Schemas['KeyRow'];

const keys = () => queryOptions({ queryKey: ['keys'], queryFn: ({ signal }) => api('get', '/api/keys', { query: { limit: 200 }, signal }) });

export function KeysSection(): ReactNode {
  const { data, error } = useQuery(keys());
  const [making, setMaking] = useState(false);
  const close = () => {
    setMaking(false);
    void queryClient.invalidateQueries({ queryKey: ['keys'] });
  };
  const make = (
    <Button size="small" disabled={!data} onClick={() => setMaking(true)}>
      <KeyRound aria-hidden className="size-3.5" /> New key
    </Button>
  );
  return (
    <Section title="Keys" aside={make}>
      {error && <Problem error={error} />}
      {!data && !error && <Spinner />}
      {data?.data.length === 0 && (
        <p className="text-muted">No key was given out, so this server listens on its own machine only, and whoever is there may do everything.</p>
      )}
      {data && data.data.length > 0 && (
        <ul className="divide-y divide-line rounded-xl border bg-surface">
          {data.data.map((key) => (
            <KeyRow key={key.id} row={key} />
          ))}
        </ul>
      )}
      {making && <NewKeyDialog onClose={close} />}
    </Section>
  );
}

function KeyRow({ row }: { row: Key }): ReactNode {
  const ended = hasEnded(row);
  return (
    <li className="flex min-h-14 items-center gap-3 px-4 py-2">
      <div className={classes('min-w-0 grow', ended && 'opacity-60')}>
        <div className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
          <span className="max-w-full truncate font-medium" title={row.name} dir="auto">
            {row.name}
          </span>
          {row.scopes.map((scope) => (
            <Badge key={scope} tone={scope === 'admin' ? 'warn' : 'plain'}>
              {scope}
            </Badge>
          ))}
          {row.revoked_at ? <Badge tone="bad">revoked</Badge> : ended && <Badge tone="bad">expired</Badge>}
        </div>
        <div className="text-xs leading-5 text-muted">
          <span className="font-mono">{row.id}</span> · {told(row)}
        </div>
      </div>
      {!row.revoked_at && (
        <IconButton label={`Revoke ${row.name}`} onClick={() => void revoke(row).catch(tellError)}>
          <Trash2 />
        </IconButton>
      )}
    </li>
  );
}

const hasEnded = ({ revoked_at: revoked, expires_at: ends }: Key): boolean =>
  revoked !== null || (ends !== null && Date.parse(ends) < Date.now());

function told({ created_at: made, expires_at: ends, last_used_at: used, revoked_at: revoked }: Key): string {
  return [
    `made ${formatTimeAgo(made)}`,
    used ? `used ${formatTimeAgo(used)}` : 'never used',
    ...(revoked ? [`revoked ${formatTimeAgo(revoked)}`] : [ends ? `until ${formatDateTime(ends)}` : 'no end']),
  ].join(' · ');
}

async function revoke(key: Key): Promise<void> {
  const sure = await askYes({
    title: `Revoke ${key.name}?`,
    text: 'Its next request is refused, and its open streams end. This cannot be undone.',
    act: 'Revoke',
    danger: true,
  });
  if (!sure) return;
  await api('delete', '/api/keys/{key_id}', { path: { key_id: key.id } });
  await queryClient.invalidateQueries({ queryKey: ['keys'] });
}
