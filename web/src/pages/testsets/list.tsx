/** /testsets: list of test sets, most recently changed first; create or import one. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { FileUp, Plus, Table2 } from 'lucide-react';
import { useRef, useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { api, type TestSetRow } from '@/api/client';
import { useCommand } from '@/app/commands';
import { Button } from '@/components/button';
import { askText } from '@/components/confirm-dialog';
import { TextField } from '@/components/form-fields';
import { Badge, EmptyState, LoadError, Loading } from '@/components/status';
import { showError } from '@/components/toast';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { useTitle, useDebounced } from '@/lib/hooks';
import { safeExact, safeProse } from '@/lib/safe-text';
import { FileInput, DropOverlay, useFileDrop, ImportDialog } from './import-dialog';
import { invalidateTestset, testsetPagesQuery } from './queries';

export default function TestSetsPage(): ReactNode {
  useTitle('Test sets');
  const [, navigate] = useLocation();
  const [searchText, setSearchText] = useState('');
  const search = useDebounced(searchText.trim(), 250);
  const [archived, setArchived] = useState(false);
  const [file, setFile] = useState<File | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const drop = useFileDrop(setFile);
  const create = () =>
    void createTestset()
      .then((id) => id && navigate(`/testsets/${id}`))
      .catch(showError);
  useCommand({ id: 'testset-new', title: 'New test set', group: 'Test sets', run: create });
  useCommand({
    id: 'testset-import',
    title: 'Import a file as a test set',
    group: 'Test sets',
    run: () => picker.current?.click(),
  });
  useCommand({
    id: 'testset-search',
    title: 'Search test sets',
    group: 'Test sets',
    keys: '/',
    run: () => field.current?.focus(),
  });
  const actions = (
    <>
      <Button onClick={() => picker.current?.click()}>
        <FileUp aria-hidden className="size-4 text-faint" />
        Import
      </Button>
      <Button variant="main" onClick={create}>
        <Plus aria-hidden className="size-4" />
        New
      </Button>
    </>
  );
  return (
    <section aria-label="Test sets" className="relative flex h-full flex-col" {...drop.handlers}>
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="grow text-base font-semibold">Test sets</h1>
        <TextField
          ref={field}
          type="search"
          aria-label="Find a test set"
          placeholder="Find by name"
          dir="auto"
          maxLength={200}
          value={searchText}
          onChange={(event) => setSearchText(event.target.value)}
          className="max-w-72 min-w-0 max-sm:order-last max-sm:max-w-none"
        />
        {actions}
      </header>
      <div className="min-h-0 grow overflow-y-auto">
        <div className="mx-auto max-w-5xl sm:px-2">
          <TestsetResults
            search={search}
            archived={archived}
            actions={actions}
            onArchived={() => setArchived(!archived)}
          />
        </div>
      </div>
      <FileInput ref={picker} onPick={setFile} />
      {drop.isOver && <DropOverlay />}
      {file && (
        <ImportDialog
          file={file}
          onClose={() => setFile(null)}
          onDone={({ testset }) => navigate(`/testsets/${testset.id}`)}
        />
      )}
    </section>
  );
}

async function createTestset(): Promise<string | null> {
  const name = await askText({ title: 'New test set', label: 'Name', value: '', act: 'Create' });
  if (!name) return null;
  const created = await api('post', '/api/testsets', { body: { name } });
  void invalidateTestset(created.id);
  return created.id;
}

function TestsetResults({
  search,
  archived,
  actions,
  onArchived,
}: {
  search: string;
  archived: boolean;
  actions: ReactNode;
  onArchived: () => void;
}): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    testsetPagesQuery(search, archived),
  );
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  if (error && !data) return <LoadError error={error} onRetry={refetch} className="p-4" />;
  if (!data) return <Loading className="p-6" />;
  return (
    <>
      {rows.length === 0 && <NoTestsets search={search} actions={actions} />}
      <ul aria-label="Test sets">
        {rows.map((row) => (
          <TestsetItem key={row.id} row={row} />
        ))}
      </ul>
      <div className="flex justify-center gap-2 p-3">
        {hasNextPage && (
          <Button size="small" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Load more
          </Button>
        )}
        <Button size="small" variant="quiet" aria-pressed={archived} onClick={onArchived}>
          {archived ? 'Hide archived' : 'Show archived'}
        </Button>
      </div>
    </>
  );
}

function TestsetItem({ row }: { row: TestSetRow }): ReactNode {
  return (
    <li className="border-b">
      <Link href={`/testsets/${row.id}`} className="flex flex-col gap-0.5 px-4 py-3 -outline-offset-2 hover:bg-sunken">
        <span className="flex min-w-0 flex-wrap items-baseline gap-x-3 gap-y-0.5">
          <bdi className="min-w-0 grow basis-48 font-medium wrap-anywhere">{safeExact(row.name)}</bdi>
          {row.archived && <Badge>Archived</Badge>}
          <span className="flex gap-x-3 text-xs text-muted tabular-nums max-sm:w-full sm:text-right">
            <span>{pluralize(row.rows, 'row')}</span>
            <span className="sm:w-20">revision {row.head}</span>
            <time dateTime={row.updated_at} title={formatDateTime(row.updated_at)} className="sm:w-20">
              {formatTimeAgo(row.updated_at)}
            </time>
          </span>
        </span>
        {row.description && (
          <span dir="auto" className="line-clamp-2 text-[13px] text-muted wrap-anywhere">
            {safeProse(row.description)}
          </span>
        )}
      </Link>
    </li>
  );
}

function NoTestsets({ search, actions }: { search: string; actions: ReactNode }): ReactNode {
  if (search)
    return <EmptyState title="No matching test sets">Try another name, or show archived test sets.</EmptyState>;
  return (
    <EmptyState title="No test sets yet" icon={<Table2 aria-hidden />}>
      <p>
        A test set is a table of inputs and expected answers. Drop a CSV, JSON Lines, JSON or Parquet file here, or
        start with an empty one.
      </p>
      <div className="flex justify-center gap-2 pt-4">{actions}</div>
    </EmptyState>
  );
}
