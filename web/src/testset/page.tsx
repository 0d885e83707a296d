/** /testsets/{id}: one test set. Its rows, its history (?view=history), two revisions side by side (?from=3&to=4), or an old one (?revision=3). */
import { useQuery } from '@tanstack/react-query';
import { SearchX } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import { ApiError } from '@/api/client';
import type { TestSet } from '@/api/types';
import { useTitle } from '@/lib/hooks';
import { DropMark, useDrop } from '@/testsets/drop';
import { ACCEPTED } from '@/testsets/file-head';
import { ImportDialog } from '@/testsets/import-dialog';
import { testset } from '@/testsets/queries';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { DiffView } from './diff-view';
import { SetHeader, type View } from './header';
import { History } from './history';
import { OldBar } from './old-bar';
import { RowsView } from './rows-view';

export default function TestSetPage({ id }: { id: string }): ReactNode {
  const { data, error, refetch } = useQuery(testset(id));
  useTitle(data ? data.name.slice(0, 80) : 'Test set');
  if (data) return <Shown set={data} />;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <Empty title="This test set is not here" icon={<SearchX aria-hidden />}>
        <p>It was erased, or it belongs to another project.</p>
        <Link href="/testsets" className="mt-3 inline-block text-accent hover:underline">All test sets</Link>
      </Empty>
    );
  }
  if (error) return <div className="mx-auto max-w-xl p-8"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  return <div className="grid h-full place-items-center"><Spinner /></div>;
}

function Shown({ set }: { set: TestSet }): ReactNode {
  const [search, setSearch] = useSearchParams();
  const numbered = (name: string): number | undefined => (/^[1-9]\d{0,8}$/.test(search.get(name) ?? '') ? Number(search.get(name)) : undefined);
  const [from, to, old] = [numbered('from'), numbered('to'), numbered('revision')];
  const view: View = search.get('view') === 'history' || from !== undefined ? 'history' : 'rows';
  const [file, setFile] = useState<File | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const drop = useDrop((dropped) => !set.archived && setFile(dropped));
  const isOld = old !== undefined && old < set.head;
  return (
    <section aria-label="Test set" className="relative flex h-full min-h-0 flex-col" {...drop.on}>
      <SetHeader set={set} view={view} onView={(next) => setSearch(next === 'history' ? { view: 'history' } : {})} onImport={() => picker.current?.click()} shown={isOld && view === 'rows' ? old : set.head} />
      {view === 'history' && from !== undefined && <DiffView key={`${from} ${to}`} set={set} from={from} to={to ?? set.head} />}
      {view === 'history' && from === undefined && <History set={set} />}
      {view === 'rows' && isOld && <OldBar set={set} number={old} />}
      {view === 'rows' && <RowsView key={isOld ? old : 'head'} set={set} old={isOld ? old : undefined} />}
      <input ref={picker} type="file" hidden aria-label="File to import" accept={ACCEPTED} onChange={(event) => { setFile(event.target.files?.[0] ?? null); event.target.value = ''; }} />
      {drop.over && !set.archived && <DropMark />}
      {file && <ImportDialog file={file} into={set} onClose={() => setFile(null)} onDone={() => setSearch({})} />}
    </section>
  );
}
