/** The revisions of a set, the newest first: looked at, compared, restored. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import type { TestSet } from '@/api/types';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { revisions, type Revision } from '@/testsets/queries';
import { Badge, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { Select } from '@/components/form-fields';
import { tellError } from '@/components/toast';
import { useRestore } from './restoring';

export function History({ set }: { set: TestSet }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(revisions(set.id));
  const restore = useRestore(set);
  const all = data?.pages.flatMap((page) => page.data) ?? [];
  if (error && !data) return <div className="p-4"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  if (!data) return <div className="p-6"><Spinner /></div>;
  return (
    <div className="min-h-0 grow overflow-y-auto">
      <div className="mx-auto max-w-4xl">
        {all.length > 1 && <Comparing set={set} all={all} />}
        <ol aria-label="Revisions">
          {all.map((one) => (
            <li key={one.revision} className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2.5">
              <span className="w-8 shrink-0 font-medium tabular-nums">{one.revision}</span>
              <div className="min-w-0 grow basis-56">
                <p dir="auto" className={one.message ? 'wrap-anywhere' : 'text-faint'}>{prose(one.message) || 'Without words'} {one.revision === set.head && <Badge tone="accent">newest</Badge>}</p>
                <p className="text-xs text-muted tabular-nums">
                  <time dateTime={one.created_at} title={formatDateTime(one.created_at)}>{formatTimeAgo(one.created_at)}</time> · {pluralize(one.rows, 'row')} · {pluralize(one.columns.length, 'column')}{one.author && ` · ${one.author}`}
                </p>
              </div>
              <div className="flex gap-1 max-sm:w-full max-sm:pl-9">
                {one.parent !== null && <Step href={`/testsets/${set.id}?from=${one.parent}&to=${one.revision}`} label={`What changed in revision ${one.revision}`}>Changes</Step>}
                <Step href={one.revision === set.head ? `/testsets/${set.id}` : `/testsets/${set.id}?revision=${one.revision}`} label={`Rows of revision ${one.revision}`}>Rows</Step>
                {one.revision !== set.head && !set.archived && <Button size="small" look="quiet" aria-label={`Restore revision ${one.revision}`} onClick={() => void restore(one.revision).catch(tellError)}>Restore</Button>}
              </div>
            </li>
          ))}
        </ol>
        {hasNextPage && <div className="flex justify-center p-3"><Button size="small" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>Show more</Button></div>}
      </div>
    </div>
  );
}

const Step = ({ href, label, children }: { href: string; label: string; children: ReactNode }): ReactNode => (
  <Link href={href} aria-label={label} className="inline-flex h-7 items-center rounded-lg px-2 text-[13px] font-medium text-accent hover:bg-sunken">{children}</Link>
);

function Comparing({ set, all }: { set: TestSet; all: readonly Revision[] }): ReactNode {
  const [, navigate] = useLocation();
  const [from, setFrom] = useState(String(all[1]?.revision ?? 1));
  const [to, setTo] = useState(String(set.head));
  const choice = (label: string, value: string, onChange: (value: string) => void): ReactNode => (
    <Select aria-label={label} value={value} onChange={(event) => onChange(event.target.value)} className="!w-auto max-w-56">
      {all.map(({ revision, message }) => <option key={revision} value={revision}>{revision}{message && `: ${message.slice(0, 40)}`}</option>)}
    </Select>
  );
  return (
    <form className="flex flex-wrap items-center gap-2 border-b px-4 py-2.5" onSubmit={(event) => { event.preventDefault(); navigate(`/testsets/${set.id}?from=${from}&to=${to}`); }}>
      <span className="text-muted">From</span>{choice('From revision', from, setFrom)}
      <span className="text-muted">to</span>{choice('To revision', to, setTo)}
      <Button type="submit" disabled={from === to}>Compare</Button>
    </form>
  );
}
