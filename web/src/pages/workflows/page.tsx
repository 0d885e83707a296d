/** /workflows: list of workflows, or one workflow. */
import { useQuery } from '@tanstack/react-query';
import { ChevronRight, Plug, RefreshCw, Search, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Link } from 'wouter';
import type { Schemas, WorkflowRow } from '@/api/client';
import { workflowsQuery } from '@/api/queries';
import { useIsAdmin } from '@/app/auth';
import { Button, IconButton } from '@/components/button';
import { TextField, SegmentedControl } from '@/components/form-fields';
import { ErrorMessage, Spinner, Badge } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatDateTime, formatTimeAgo } from '@/lib/format';
import { searchByTitle } from '@/lib/fuzzy-search';
import { useTitle } from '@/lib/hooks';
import ConnectDialog from './connect-dialog';
import { connectionsQuery, disconnect, useRefresh } from './connections';
import { WorkflowDetail, ChatBadge, StateBadges } from './detail';
import { NoWorkflows } from './no-workflows';

export default function WorkflowsPage({ name }: { name?: string | undefined }): ReactNode {
  useTitle(name ?? 'Workflows');
  return name ? <WorkflowDetail key={name} name={name} /> : <WorkflowList />;
}

const KIND_LABELS = { all: 'All', chat: 'Chat', other: 'Single-turn' } as const;
type Kind = keyof typeof KIND_LABELS;

export function WorkflowList(): ReactNode {
  const { data, error, refetch } = useQuery(workflowsQuery());
  const isAdmin = useIsAdmin();
  const [text, setText] = useState('');
  const [kind, setKind] = useState<Kind>('all');
  const [connecting, setConnecting] = useState(false);
  const rowsOfKind = (data?.data ?? []).filter((row) => kind === 'all' || row.is_chat === (kind === 'chat'));
  const rows = searchByTitle(
    text,
    rowsOfKind.map((row) => ({ title: row.name, more: row.description, row })),
    500,
  ).map(({ row }) => row);
  return (
    <div className="mx-auto max-w-4xl px-4 py-6 sm:px-8">
      <header className="flex items-center justify-between gap-4 pb-4">
        <h1 className="text-xl font-semibold">Workflows</h1>
        {isAdmin && (
          <Button onClick={() => setConnecting(true)}>
            <Plug aria-hidden className="size-4" /> Connect a service
          </Button>
        )}
      </header>
      {error && (
        <ErrorMessage error={error}>
          <Button size="small" onClick={() => void refetch()}>
            Retry
          </Button>
        </ErrorMessage>
      )}
      {!data && !error && <Spinner />}
      {data?.data.length === 0 && <NoWorkflows />}
      {data && data.data.length > 0 && (
        <>
          <div className="flex flex-wrap items-center gap-2 pb-3">
            <div className="relative min-w-48 grow">
              <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
              <TextField
                type="search"
                aria-label="Search workflows"
                placeholder="Search"
                className="pl-8.5"
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            </div>
            <SegmentedControl label="Type" options={KIND_LABELS} value={kind} onChange={setKind} />
          </div>
          {rows.length === 0 ? (
            <p className="py-8 text-center text-muted">No matching workflows.</p>
          ) : (
            <ul className="divide-y divide-line rounded-xl border bg-surface">
              {rows.map((row) => (
                <WorkflowListRow key={row.name} workflow={row} />
              ))}
            </ul>
          )}
        </>
      )}
      <ConnectionList />
      {connecting && <ConnectDialog onClose={() => setConnecting(false)} />}
    </div>
  );
}

function WorkflowListRow({ workflow }: { workflow: WorkflowRow }): ReactNode {
  const [isRefreshing, refresh] = useRefresh(workflow.name);
  return (
    <li
      className={cn(
        'group relative flex items-center gap-3 px-4 py-3',
        'first:rounded-t-xl last:rounded-b-xl hover:bg-sunken/60',
      )}
    >
      <div className="min-w-0 grow">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <Link
            href={`/workflows/${encodeURIComponent(workflow.name)}`}
            className="max-w-full truncate rounded font-medium after:absolute after:inset-0"
            title={workflow.name}
          >
            {workflow.name}
          </Link>
          <ChatBadge workflow={workflow} />
          <StateBadges workflow={workflow} />
        </div>
        <p className={cn('line-clamp-2 pt-0.5 text-muted wrap-anywhere', !workflow.description && 'italic')} dir="auto">
          {workflow.description || 'No description.'}
        </p>
        {workflow.state === 'unreachable' && <p className="pt-0.5 text-bad">No response when last checked.</p>}
        {workflow.problem && (
          <p className="line-clamp-3 pt-0.5 text-bad wrap-anywhere" dir="auto">
            {workflow.problem}
          </p>
        )}
      </div>
      {workflow.state !== 'ready' && (
        <Button size="small" className="relative" disabled={isRefreshing} onClick={refresh}>
          <RefreshCw aria-hidden className={cn('size-3.5', isRefreshing && 'animate-spin')} /> Refresh
        </Button>
      )}
      <ChevronRight aria-hidden className="size-4 shrink-0 text-faint" />
    </li>
  );
}

type ConnectionRow = Schemas['ConnectionRow'];
const TONES = { ready: 'good', unreachable: 'bad', unavailable: 'bad', failed: 'bad' } as const;
const STATE_LABELS = { ready: 'Ready', unreachable: 'Unreachable', unavailable: 'Unavailable', failed: 'Failed' };

export function ConnectionList(): ReactNode {
  const { data } = useQuery(connectionsQuery());
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

const ConnectionRow = ({ row, removable }: { row: ConnectionRow; removable: boolean }): ReactNode => (
  <li className="flex min-h-12 items-center gap-3 px-4 py-2">
    <div className="min-w-0 grow">
      <div className="flex min-w-0 items-center gap-2">
        {row.state === 'failed' ? (
          <span className="truncate font-medium">{row.name}</span>
        ) : (
          <Link
            href={`/workflows/${encodeURIComponent(row.name)}`}
            className="truncate rounded font-medium hover:underline"
          >
            {row.name}
          </Link>
        )}
        <Badge tone={TONES[row.state]}>{STATE_LABELS[row.state]}</Badge>
        {row.fixed && (
          <Badge title="Edit this connection where it is declared">
            {row.declared_in === 'settings' ? 'In palaver.toml' : 'In code'}
          </Badge>
        )}
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
        checked {formatTimeAgo(row.checked_at)}
      </span>
    )}
    {removable && (
      <IconButton label={`Disconnect ${row.name}`} onClick={() => void disconnect(row.name).catch(showError)}>
        <Trash2 />
      </IconButton>
    )}
  </li>
);
